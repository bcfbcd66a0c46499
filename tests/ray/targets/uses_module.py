"""Everything scry.ray does on a cluster, in one session: each costs a start of Python and Ray otherwise.

uses_module.py ADDRESS JOB LINKS FOLDER PORT     prints what came out as JSON
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

import ray

import scry.ray
from scry.ray import __main__ as command

ADDRESS, JOB, LINKS, FOLDER, PORT = sys.argv[1:]


def report():
    seen = scry.ray.doctor()
    return {"ok": seen.ok, "text": str(seen)}


def report_without_link():
    """Ray looks anew at every request, so what is gone now is missed now."""
    link = Path(LINKS) / "py-spy"
    target = os.readlink(link)
    link.unlink()
    try:
        return report()
    finally:
        link.symlink_to(target)


def ask(url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError as error:
        return 0, str(error)


def deployed():
    with scry.ray.deploy(port=int(PORT)) as servers:
        url = servers.url
        stranger, _ = ask(f"{url}/api/v1/tasks")
        friend, tasks = ask(f"{url}/api/v1/tasks", servers.token)
    return {
        "url": url,
        "stranger": stranger,
        "friend": friend,
        "tasks": sorted({task["name"] for task in json.loads(tasks)["tasks"]}),
        "afterwards": ask(f"{url}/healthz")[0],
    }


def profile():
    seen = scry.ray.record(tasks="busy_task", actors=["waiter-*"], idle=True, duration=1)
    path = seen.save(Path(FOLDER) / "both.txt")
    return {
        "workers": len(seen.found),
        "failures": list(map(str, seen.failures)),
        "text": path.read_text(),
        "json": seen.save(Path(FOLDER) / "both.json").read_text(),
        "shown": repr(seen),
        "page": seen._repr_html_(),
    }


def replicas():
    """Of a real Serve application, by the names of its deployment."""
    from ray import serve

    @serve.deployment(name="Summarizer", num_replicas=2, ray_actor_options={"num_cpus": 0.01})
    class Summarizer:
        async def __call__(self):
            return None

    serve.run(Summarizer.bind(), name="news")
    try:
        return {
            pattern: [str(worker) for worker in scry.ray.workers(replicas=pattern)]
            for pattern in ("Summarizer", "news:Summ*", "Translator")
        } | {"shown": repr(scry.ray.record(replicas="Summarizer", idle=True, duration=1))}
    finally:
        serve.shutdown()


def nothing():
    """By the command, which says so."""
    return command.main(["record", "--tasks", "nobody", "-o", f"{FOLDER}/nobody.svg"])


def main():
    ray.init(ADDRESS, log_to_driver=False)
    results = {
        "doctor": report(),
        "doctor_without_link": report_without_link(),
        "dump": str(scry.ray.dump(tasks="sleep*")),
        "profile": profile(),
        "replicas": replicas(),
        "nothing": nothing(),
        "stuck": str(scry.ray.stuck(job=JOB)),
        "deployed": deployed(),
    }
    print(json.dumps(results))


main()

"""A program with something to see in it: one thread makes reports from orders, one waits for them to deliver, one
listens for a connection. It runs until it is stopped. The pictures in the README show it."""

import csv
import difflib
import io
import json
import queue
import random
import socket
import statistics
import textwrap
import threading
from datetime import datetime

CUSTOMERS = ["Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances"]


class Orders:
    def __init__(self, count: int) -> None:
        draw = random.Random(count)
        out = io.StringIO()
        writer = csv.writer(out)
        for number in range(count):
            day = f"2026-{draw.randint(1, 12):02}-{draw.randint(1, 28):02} {draw.randint(0, 23):02}:00"
            writer.writerow(
                [number, draw.choice(CUSTOMERS), day, f"{draw.lognormvariate(3, 1):.2f}"]
            )
        self.text = out.getvalue()

    def parse(self) -> list:
        rows = csv.reader(io.StringIO(self.text))
        return [(who, self.parse_day(day), float(amount)) for _, who, day, amount in rows]

    def parse_day(self, text: str) -> datetime:
        return datetime.strptime(text, "%Y-%m-%d %H:%M")


class Report:
    def __init__(self, orders: list) -> None:
        self.months: dict = {}
        for who, day, amount in orders:
            self.months.setdefault(day.month, {}).setdefault(who, []).append(amount)

    def summarise(self) -> dict:
        return {
            month: {who: self.figures(amounts) for who, amounts in people.items()}
            for month, people in sorted(self.months.items())
        }

    def figures(self, amounts: list) -> dict:
        return {
            "orders": len(amounts),
            "median": statistics.median(amounts),
            "spread": statistics.pstdev(amounts),
        }

    def render(self) -> str:
        return "\n".join(
            textwrap.fill(f"Month {month}: {json.dumps(people, indent=1)}", 60)
            for month, people in self.summarise().items()
        )


class Reporter:
    def __init__(self, deliveries: queue.Queue) -> None:
        self.deliveries = deliveries
        self.last = ""

    def run(self) -> None:
        count = 400
        while True:
            report = Report(Orders(count).parse()).render()
            if self.changes(report):
                self.deliveries.put(report)
            self.last = report
            count = 400 + (count + 1) % 50

    def changes(self, report: str) -> int:
        old, new = self.last.splitlines()[:60], report.splitlines()[:60]
        return sum(1 for line in difflib.unified_diff(old, new, lineterm="") if line[0] in "+-")


def deliver(deliveries: queue.Queue) -> None:
    while True:
        deliveries.get()


def listen(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        connection.close()


def main() -> None:
    deliveries: queue.Queue = queue.Queue()
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=deliver, args=(deliveries,), name="deliveries", daemon=True).start()
    threading.Thread(target=listen, args=(server,), name="listener", daemon=True).start()
    Reporter(deliveries).run()


if __name__ == "__main__":
    main()

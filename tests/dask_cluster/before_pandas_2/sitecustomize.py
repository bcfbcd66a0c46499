"""Means as they were when the example was written: of the columns that have one.

Up to pandas 1.5, `.mean()` of a table left out columns of text; from 2.0 on it raises TypeError, and today's Dask refuses to
work with anything older. There is no setting for it, neither in pandas nor in Dask. So this one default is put back, in the
processes that have this folder on their path, for programs written before; all else of Dask is as it was installed.
"""

import functools

import dask.dataframe

_mean = dask.dataframe.DataFrame.mean


@functools.wraps(_mean)
def mean(self, *words, **options):
    return _mean(self, *words, **{"numeric_only": True, **options})


dask.dataframe.DataFrame.mean = mean

"""Means as they were when the example was written: of the columns that have one.

Up to pandas 1.5, `.mean()` of a table left out columns of text; from 2.0 on it raises TypeError, and today's Dask refuses to
work with anything older. There is no setting for it, neither in pandas nor in Dask: with distributed 2026.8 the line
`dask.datasets.timeseries(...).set_index("id").mean().compute()` was tried on

    pandas 1.5.3                                ImportError: Dask requires version '2.0.0' or newer
    pandas 2.0.0, 2.1.4, 2.2.3                  TypeError: dtype string does not support reduction 'mean'
    pandas 2.3.3, 3.0.6, 3.1.1                  TypeError: Cannot perform reduction 'mean' with string dtype
    2.x with dataframe.convert-string: false    TypeError: Could not convert ['foofoo'] to numeric (3.x as above)

So this one default is put back, in the
processes that have this folder on their path, for programs written before; all else of Dask is as it was installed.
"""

import functools

import dask.dataframe

_mean = dask.dataframe.DataFrame.mean


@functools.wraps(_mean)
def mean(self, *words, **options):
    return _mean(self, *words, **{"numeric_only": True, **options})


dask.dataframe.DataFrame.mean = mean

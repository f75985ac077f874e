"""The cluster of the tests is that of the benchmarks."""

from benchmarks.standalone import SETTINGS as SETTINGS
from benchmarks.standalone import Cluster as Cluster
from benchmarks.standalone import Driver as Driver
from benchmarks.standalone import Process as Process
from benchmarks.standalone import running as running
from benchmarks.standalone import until as until

"""The modules of the standard library that programs use.

They are imported when the interpreter is built: what is imported then is in its memory when a program begins, and
what is not does not exist for it, since there are no files to import from.
"""

import __future__

import abc
import argparse
import array
import ast
import asyncio
import base64
import binascii
import bisect
import calendar
import cmath
import cmd
import code
import codecs
import codeop
import collections
import collections.abc
import colorsys
import concurrent.futures
import configparser
import contextlib
import contextvars
import copy
import copyreg
import csv
import dataclasses
import datetime
import dbm.dumb
import decimal
import difflib
import dis
import email
import email.message
import email.mime.multipart
import email.mime.text
import email.parser
import email.policy
import email.utils
import enum
import filecmp
import fileinput
import fnmatch
import fractions
import functools
import gc
import getopt
import gettext
import glob
import graphlib
import gzip
import hashlib
import heapq
import hmac
import html
import html.entities
import html.parser
import http
import http.cookies
import inspect
import io
import ipaddress
import itertools
import json
import keyword
import linecache
import locale
import logging
import math
import mimetypes
import netrc
import numbers
import opcode
import operator
import optparse
import os
import os.path
import pathlib
import pickle
import pickletools
import pkgutil
import platform
import plistlib
import pprint
import queue
import quopri
import random
import re
import reprlib
import sched
import secrets
import shelve
import shlex
import shutil
import statistics
import string
import string.templatelib
import stringprep
import struct
import symtable
import sys
import tarfile
import tempfile
import textwrap
import threading
import time
import timeit
import token
import tokenize
import tomllib
import traceback
import types
import typing
import unicodedata
import unittest
import unittest.mock
import urllib.error
import urllib.parse
import uuid
import warnings
import wave
import weakref
import xml.dom.minidom
import xml.etree.ElementTree
import xml.sax
import xml.sax.saxutils
import zipfile
import zlib
import zoneinfo
import _strptime

# Those that need what this interpreter is perhaps built without.
for name in ("bdb", "cProfile", "doctest", "getpass", "profile", "pstats", "tracemalloc"):
    try:
        __import__(name)
    except ImportError:
        pass

# Codecs are found by name, when a text is first written in one.
for name in ("ascii", "cp437", "cp1252", "gb18030", "gbk", "big5", "shift_jis", "euc_jp", "euc_kr", "idna", "latin_1", "punycode",
             "utf_8", "utf_8_sig", "utf_16", "utf_16_le", "utf_16_be", "utf_32", "rot_13", "base64_codec", "hex_codec"):
    try:
        codecs.lookup(name)
    except LookupError:
        pass

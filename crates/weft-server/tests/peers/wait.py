"""Waits until a server responds: `wait.py BASE_URL`."""

import sys
import time

import requests

for _ in range(150):
    try:
        requests.get(f"{sys.argv[1]}/healthz", timeout=5).raise_for_status()
        break
    except requests.RequestException:
        time.sleep(0.2)
else:
    sys.exit("the server does not answer")

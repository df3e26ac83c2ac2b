"""A third-party mail server that accepts mail from the component Email: `mail.py WEFT FOLDER`. It uses STARTTLS, requires
a password, and has a certificate of a certificate authority that is created for the test."""

import email
import email.policy
import json
import os
import pathlib
import ssl
import subprocess
import sys

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

ADDRESS, PORT = "127.0.0.1", 19386
USER, PASSWORD = "weft@example.org", "Pass wörd ✓"
SUBJECT = "Übersicht: [cat]\r\nBcc: eve@example.org"
BODY = "Hello Ada,\n.\nthe sum is 3 < 4 — 汉字\n" + "long " * 300


class Letterbox:
    def __init__(self):
        self.taken = []

    async def handle_DATA(self, server, session, envelope):
        self.taken.append((envelope.mail_from, envelope.rcpt_tos, envelope.content, session.ssl is not None))
        return "250 taken"


def authenticator(server, session, envelope, mechanism, data):
    known = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=known, handled=False)


def canvas(password):
    def node(kind, params, up, down):
        return {"obj": {"component_name": kind, "params": params}, "upstream": up, "downstream": down}

    params = {
        "smtp_server": "localhost", "smtp_port": PORT, "email": USER, "password": password, "sender_name": "Weft",
        "to_email": "ada@example.org, \"Hopper, Grace\" <grace@example.org>", "cc_email": "eno@example.org",
        "subject": "{sys.query}", "content": BODY, "max_retries": 0,
    }
    return {"components": {
        "begin": node("Begin", {}, [], ["Email:A"]),
        "Email:A": node("Email", params, ["begin"], ["Message:B"]),
        "Message:B": node("Message", {"content": ["sent: {Email:A@success}"]}, ["Email:A"], []),
    }}


def run(weft, folder, authority, password):
    (folder / "mail.json").write_text(json.dumps(canvas(password)), encoding="utf-8")
    (folder / "mail.toml").write_text(f'[net]\nallow = ["localhost:{PORT}"]\n', encoding="utf-8")
    command = [weft, "run", "mail.json", "--config", "mail.toml", "--data", "mail", "--query", SUBJECT]
    environment = {**os.environ, "SSL_CERT_FILE": str(authority)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


def main(weft, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    letterbox = Letterbox()
    controller = Controller(
        letterbox, hostname=ADDRESS, port=PORT, tls_context=context, require_starttls=True, auth_required=True,
        authenticator=authenticator,
    )
    controller.start()
    try:
        done = run(weft, folder, folder / "authority.pem", PASSWORD)
        assert done.returncode == 0 and "sent: true" in done.stdout, done
        [(sender, recipients, content, encrypted)] = letterbox.taken
        assert encrypted and sender == USER, sender
        assert recipients == ["ada@example.org", "grace@example.org", "eno@example.org"], recipients
        message = email.message_from_bytes(content, policy=email.policy.default)
        assert message["subject"].split() == SUBJECT.split(), message["subject"]
        assert message["bcc"] is None and message["from"] == f"Weft <{USER}>", message.items()
        assert [str(one) for one in message["to"].addresses] == \
            ["ada@example.org", "\"Hopper, Grace\" <grace@example.org>"], message["to"]
        text = message.get_body(("plain",)).get_content()
        assert text.splitlines() == BODY.strip().splitlines(), text
        assert "3 &lt; 4 — 汉字" in message.get_body(("html",)).get_content()

        refused = run(weft, folder, folder / "authority.pem", "wrong")
        assert "sent: true" not in refused.stdout and len(letterbox.taken) == 1, refused
        assert "wrong" not in refused.stderr, refused
        other = trustme.CA()
        other.cert_pem.write_to_path(folder / "other.pem")
        unknown = run(weft, folder, folder / "other.pem", PASSWORD)
        assert "sent: true" not in unknown.stdout and len(letterbox.taken) == 1, unknown
        print("a mail server took one mail, whole, and none that it should not")
    finally:
        controller.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])

# SPDX-License-Identifier: Apache-2.0
"""notify_server.py DIR STATUS... - a webhook and a mail server for tests, on 127.0.0.1, until it is killed

The first answers of the webhook are these, then 200; at /hang it never answers. What it got is in DIR/http, a line of
JSON each, {path, body}; mails in DIR/smtp, {from, to, text}. DIR/ports is written last: two numbers.
"""
import http.server
import json
import os
import socketserver
import sys
import threading

folder, answers = sys.argv[1], [int(a) for a in sys.argv[2:]]


def keep(name, value):
    with open(os.path.join(folder, name), 'a') as f:
        f.write(json.dumps(value) + '\n')


class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        if self.path == '/hang':
            keep('hung', self.path)
            threading.Event().wait()
        status = answers.pop(0) if answers and self.path == '/hook' else 200
        keep('http', {'path': self.path, 'status': status, 'body': json.loads(body)})
        self.send_response(status)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_):
        pass


class Mail(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(line.encode() + b'\r\n')

    def handle(self):
        mail = {'to': []}
        self.say('220 test')
        for line in self.rfile:
            word = line.split(b':')[0].split()[0].upper()
            if word == b'MAIL':
                mail['from'] = line.decode().strip()
            if word == b'RCPT':
                mail['to'].append(line.decode().strip())
            if word == b'DATA':
                self.say('354 go on')
                mail['text'] = b''.join(iter(self.rfile.readline, b'.\r\n')).decode()
                keep('smtp', mail)
            self.say('221 bye' if word == b'QUIT' else '250 ok')


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


web, smtp = Server(('127.0.0.1', 0), Webhook), MailServer(('127.0.0.1', 0), Mail)
threading.Thread(target=smtp.serve_forever, daemon=True).start()
with open(os.path.join(folder, 'ports.new'), 'w') as f:
    f.write(f'{web.server_port} {smtp.server_address[1]}\n')
os.rename(os.path.join(folder, 'ports.new'), os.path.join(folder, 'ports'))
web.serve_forever()

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/**
 * The speed of plain TCP on this machine, as an upper limit for all-reduce. Processes in a ring transfer the same number of bytes in both
 * directions at once, without arithmetic.
 */
export interface TcpLimit {
  readonly by: 'c' | 'node';
  /** Sends and receives this number of bytes on each rank. Returns the time taken by the slowest rank, in ms. */
  exchange(bytes: number): Promise<number>;
  close(): Promise<void>;
}

/** Each input line of this program is a number of bytes. The program transfers that many bytes and prints the duration in ms. */
const PROGRAM = `
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static void full_read(int fd, void *to, size_t n) { for (char *p = to; n > 0;) { ssize_t r = read(fd, p, n); if (r <= 0) exit(0); p += r; n -= r; } }
static void full_write(int fd, const void *from, size_t n) { for (const char *p = from; n > 0;) { ssize_t r = write(fd, p, n); if (r <= 0) exit(1); p += r; n -= r; } }
static void rank_main(int in, int out, int command, int answer, size_t limit) {
  char *from = calloc(limit, 1), *to = calloc(limit, 1);
  for (size_t i = 0; i < limit; i += 4096) { from[i] = 1; to[i] = 1; }
  fcntl(in, F_SETFL, O_NONBLOCK); fcntl(out, F_SETFL, O_NONBLOCK);
  for (;;) {
    long long bytes; full_read(command, &bytes, sizeof bytes);
    double start = now(); long long sent = 0, received = 0;
    while (sent < bytes || received < bytes) {
      struct pollfd fds[2] = {{received < bytes ? in : -1, POLLIN, 0}, {sent < bytes ? out : -1, POLLOUT, 0}};
      poll(fds, 2, -1);
      if (fds[0].revents) { ssize_t r = read(in, to + received, bytes - received); if (r == 0) exit(1); if (r > 0) received += r; }
      if (fds[1].revents) { ssize_t w = write(out, from + sent, bytes - sent); if (w > 0) sent += w; }
    }
    double elapsed = now() - start; full_write(answer, &elapsed, sizeof elapsed);
  }
}
int main(int argc, char **argv) {
  int size = atoi(argv[1]); size_t limit = strtoull(argv[2], 0, 10); int in[64], out[64], command[64], answer[64], one = 1;
  if (argc != 3 || size < 2 || size > 64) return 2;
  for (int i = 0; i < size; i++) {
    int server = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}; socklen_t n = sizeof a;
    if (bind(server, (struct sockaddr *)&a, n) || listen(server, 1) || getsockname(server, (struct sockaddr *)&a, &n)) return 1;
    out[i] = socket(AF_INET, SOCK_STREAM, 0); if (connect(out[i], (struct sockaddr *)&a, n)) return 1;
    in[(i + 1) % size] = accept(server, 0, 0); close(server);
    setsockopt(out[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  for (int i = 0; i < size; i++) {
    int c[2], a[2]; if (pipe(c) || pipe(a)) return 1;
    if (fork() == 0) { close(c[1]); close(a[0]); rank_main(in[i], out[i], c[0], a[1], limit); }
    close(c[0]); close(a[1]); command[i] = c[1]; answer[i] = a[0];
  }
  for (long long bytes; scanf("%lld", &bytes) == 1 && bytes > 0 && (size_t)bytes <= limit;) {
    double slowest = 0, each;
    for (int i = 0; i < size; i++) full_write(command[i], &bytes, sizeof bytes);
    for (int i = 0; i < size; i++) { full_read(answer[i], &each, sizeof each); if (each > slowest) slowest = each; }
    printf("%.3f\\n", slowest); fflush(stdout);
  }
  return 0;
}
`;

export async function openTcpLimit(size: number, maxBytes: number): Promise<TcpLimit> {
  const folder = mkdtempSync(join(tmpdir(), 'tcp-limit-'));
  const binary = join(folder, 'tcp-limit');
  const compiled = spawnSync('cc', ['-O2', '-x', 'c', '-o', binary, '-'], { input: PROGRAM });
  if (compiled.status !== 0) {
    rmSync(folder, { recursive: true });
    return await openNodeLimit(size);
  }
  const child = spawn(binary, [String(size), String(maxBytes)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    by: 'c',
    async exchange(bytes) {
      child.stdin.write(`${bytes}\n`);
      const { value, done } = await lines.next();
      if (done === true) {
        throw new Error('the program that measures the TCP limit has ended');
      }
      return Number(value);
    },
    async close() {
      child.stdin.end();
      await ended(child);
      rmSync(folder, { recursive: true });
    },
  };
}

/** Fallback without a C compiler: measures with Node.js sockets and all ranks in this process. */
async function openNodeLimit(size: number): Promise<TcpLimit> {
  const pairs = await Promise.all(
    Array.from({ length: size }, async (): Promise<{ out: Socket; in: Socket }> => {
      const server = createServer({ noDelay: true }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      const out = connect({ host: '127.0.0.1', port, noDelay: true });
      const [incoming] = (await once(server, 'connection')) as [Socket];
      server.close();
      return { out, in: incoming };
    }),
  );
  return {
    by: 'node',
    async exchange(bytes) {
      const start = performance.now();
      const data = Buffer.alloc(bytes);
      await Promise.all(
        pairs.map(
          ({ out, in: incoming }) =>
            new Promise<void>((resolve) => {
              let received = 0;
              const onData = (chunk: Buffer) => {
                received += chunk.length;
                if (received === bytes) {
                  incoming.removeListener('data', onData);
                  resolve();
                }
              };
              incoming.on('data', onData);
              out.write(data);
            }),
        ),
      );
      return performance.now() - start;
    },
    async close() {
      for (const pair of pairs) {
        pair.out.destroy();
        pair.in.destroy();
      }
    },
  };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    await once(child, 'exit');
  }
}

import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, describe, expect, test } from 'vitest';
import {
  freshDataDir,
  type HostProcess,
  longLimits,
  startScriptedHost,
  untilNextSignal,
} from '../support/host.ts';
import { until } from '../support/until.ts';
import { everyNth, runsRest } from '../support/tier.ts';

const started: HostProcess[] = [];
const start = (...options: Parameters<typeof startScriptedHost>) => {
  const host = startScriptedHost(...options);
  started.push(host);
  return host;
};
afterEach(async () => {
  await Promise.all(started.splice(0).map((host) => host.end()));
});

const chat = (url: string, stream = false) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], stream }),
  });
/** Resolves when a request has begun to be answered; what there is of its text. */
const begun = async (response: Response) => {
  const reader = response.body?.getReader();
  const first = await reader?.read();
  return async () => {
    let text = new TextDecoder().decode(first?.value);
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
      text += new TextDecoder().decode(part.value);
    return text;
  };
};
/** Whether new connections are refused. */
const refuses = async (url: string) =>
  await fetch(`${url}/health`, { headers: { connection: 'close' } }).then(
    () => false,
    () => true,
  );

describe('start-up', () => {
  test('the last line names URL, model, adapter and time; the notice about the embedded model comes before it', async () => {
    const host = start(['--gpu', '--port', '0']);
    await host.url();
    const lines = host.output.stdout.trimEnd().split('\n');
    expect(lines.at(-1)).toMatch(
      /^lathe \d+\.\d+\.\d+ ready at http:\/\/127\.0\.0\.1:\d+ - model scripted \(script, F32, 1\) on scripted \(none\) - \d+\.\d s$/,
    );
    expect(lines[0]).toMatch(/lathe-tiny is a toy/);
    expect(host.output.stderr).toBe('a notice of the engine\n');
  });

  test('--quiet prints the ready line alone', async () => {
    const host = start(['--gpu', '--port', '0', '--quiet'], { tty: true });
    await host.url();
    expect(host.output.stdout.split('\n').length).toBe(2);
    expect(host.output.stderr).toBe('');
  });

  test('without --gpu it is ready without a model', async () => {
    const host = start(['--port', '0', '--model', 'x', '--swap']);
    const url = await host.url();
    expect(host.output.stdout).toContain('no resident model');
    expect(host.output.stderr).toContain('--model has no effect without --gpu');
    expect(host.output.stderr).toContain('--swap has no effect without --gpu');
    expect((await chat(url)).status).toBe(503);
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  test.runIf(runsRest)('a bar is drawn on a terminal only, and wiped', async () => {
    const onTerminal = start(['--gpu', '--port', '0'], { tty: true, loadMs: 500 });
    await onTerminal.url();
    expect(onTerminal.output.stderr).toContain('\r\u001b[2Kloading: weights [#');
    expect(onTerminal.output.stderr.endsWith('\r\u001b[2K')).toBe(true);
    const plain = start(['--gpu', '--port', '0'], { loadMs: 50 });
    await plain.url();
    expect(plain.output.stderr).not.toContain('\u001b');
  });

  test('the port answers 503 while the model loads, and the ready line comes after it', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    taken.close();
    const loadUntil = join(freshDataDir(), 'loaded');
    const host = start(['--gpu', '--port', String(port)], { loadUntil });
    const health = async () => {
      for (;;) {
        const response = await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined);
        if (response) return response;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    expect((await health()).status).toBe(503);
    expect(host.output.stdout).not.toContain('ready');
    writeFileSync(loadUntil, '');
    await host.url();
    expect((await health()).status).toBe(200);
  });

  test('a port in use fails before the load, with what to do and exit code 1', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const host = start(['--gpu', '--port', String(port)], { loadMs: 60_000 });
    expect(await host.exit).toEqual({ code: 1, signal: null });
    expect(host.output.stderr).toBe(
      `lathe: port ${port} on 127.0.0.1 is in use; choose another with --port N, or --port 0 for a free one.\n`,
    );
    taken.close();
  });

  test('a data directory belongs to one host, which host.pid tells', async () => {
    const dataDir = freshDataDir();
    const options = ['--port', '0', '--data-dir', dataDir];
    const first = start(options);
    await first.url();
    const pid = readFileSync(join(dataDir, 'host.pid'), 'utf8').trim();
    const refused = async () => {
      const second = start(options);
      expect(await second.exit).toEqual({ code: 1, signal: null });
      return second.output.stderr;
    };
    const advice = `uses the data directory ${dataDir}; stop it, or give this host its own directory with --data-dir DIR.\n`;
    expect(await refused()).toBe(`lathe: another host (process ${pid}) ${advice}`);
    writeFileSync(join(dataDir, 'host.pid'), 'no number');
    expect(await refused()).toBe(`lathe: another host ${advice}`);
    process.kill(Number(pid), 'SIGKILL');
    expect(await first.exit).toEqual({ code: null, signal: 'SIGKILL' });
    const third = start(options);
    await third.url();
    third.kill('SIGTERM');
    await third.exit;
    expect(existsSync(join(dataDir, 'host.pid'))).toBe(false);
  });

  test('a failed load is one line and exit code 1', async () => {
    const host = start(['--gpu', '--port', '0'], {
      loadError: 'no adapter found: install mesa-vulkan-drivers',
    });
    expect(await host.exit).toEqual({ code: 1, signal: null });
    expect(host.output.stderr).toBe(
      'a notice of the engine\nlathe: no adapter found: install mesa-vulkan-drivers\n',
    );
  });

  test('an error is one line, whatever names the file holds', async () => {
    const host = start(['--gpu', '--port', '0', '--quiet'], {
      loadError: "metadata 'a\nb\u001b[31m' is wrong",
    });
    expect((await host.exit).code).toBe(1);
    expect(host.output.stderr).toBe("lathe: metadata 'a\uFFFDb\uFFFD[31m' is wrong\n");
  });

  test('--config with a directory or no file says so', async () => {
    const folder = freshDataDir();
    for (const [path, words] of [
      [folder, 'it is a directory'],
      [join(folder, 'absent.toml'), 'there is no such file'],
    ] as const) {
      const host = start(['--config', path]);
      expect((await host.exit).code).toBe(2);
      expect(host.output.stderr).toContain(`lathe: --config ${path}: ${words}`);
    }
  });

  test('every usage error is reported, with exit code 2', async () => {
    const host = start(['--prot', '1', '--context', 'x']);
    expect(await host.exit).toEqual({ code: 2, signal: null });
    expect(host.output.stderr).toContain('unknown flag --prot (did you mean --port?)');
    expect(host.output.stderr).toContain('--context: expected a whole number');
    expect(host.output.stdout).toBe('');
  });

  test('a bind beyond loopback serves only requests with the bearer token', async () => {
    const host = start(['--host', '0.0.0.0', '--port', '0']);
    const url = await host.url();
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect((await fetch(`${url}/host/v1/info`)).status).toBe(401);
  });

  test('flags win over the file, whose faults name line and key', async () => {
    const folder = freshDataDir();
    const file = join(folder, 'host.toml');
    writeFileSync(file, 'gpu = true\nport = 1\nquiet = true\ncontrol_port = 0\n');
    const host = start(['--config', file, '--port', '0']);
    await host.url();
    const control = await host.waitFor('stdout', /control at (http:\/\/[^)]+)/);
    expect((await fetch(`${control[1]}/host/v1/info`)).status).toBe(200);
    expect((await fetch(`${control[1]}/v1/models`)).status).toBe(404);
    expect(host.output.stdout).toContain('model scripted');
    writeFileSync(file, 'gpu = true\nprot = 1\n');
    const wrong = start(['--config', file]);
    expect((await wrong.exit).code).toBe(2);
    expect(wrong.output.stderr).toContain('host.toml:2: prot: unknown key (did you mean port?)');
  });

  test('the data directory is private and its endpoint id outlives a restart', async () => {
    const folder = join(freshDataDir(), 'a', 'b');
    const ids: unknown[] = [];
    for (let run = 0; run < 2; run++) {
      const host = start(['--port', '0', '--data-dir', folder]);
      const info = (await (await fetch(`${await host.url()}/host/v1/info`)).json()) as {
        endpoint_id: string;
      };
      ids.push(info.endpoint_id);
      await host.end();
    }
    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(ids[1]).toBe(ids[0]);
    expect(readFileSync(join(folder, 'endpoint-id'), 'utf8').trim()).toBe(ids[0]);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  test('a data directory that cannot be used is reported', async () => {
    const host = start(['--port', '0', '--data-dir', '/proc/nothing']);
    expect((await host.exit).code).toBe(1);
    expect(host.output.stderr).toMatch(
      /^lathe: cannot use the data directory \/proc\/nothing: .*--data-dir DIR\.\n$/,
    );
  });

  test('--model takes a path or a pulled name; an unknown one lists what there is', async () => {
    const folder = freshDataDir();
    mkdirSync(join(folder, 'models', 'owner', 'repo'), { recursive: true });
    writeFileSync(join(folder, 'models', 'owner', 'repo', 'Small-Q8_0.gguf'), '');
    for (const name of everyNth(
      [
        'small-q8_0',
        'Small-Q8_0.gguf',
        'owner/repo/small-q8_0',
        join(folder, 'models/owner/repo/Small-Q8_0.gguf'),
      ],
      3,
    )) {
      const host = start(['--gpu', '--port', '0', '--data-dir', folder, '--model', name]);
      await host.url();
      expect(host.output.stdout).not.toContain('is a toy');
      await host.end();
    }
    const wrong = start(['--gpu', '--port', '0', '--data-dir', folder, '--model', 'smal-q8_0']);
    expect((await wrong.exit).code).toBe(1);
    expect(wrong.output.stderr).toContain(
      "(did you mean 'Small-Q8_0'?). Known models: lathe-tiny, Small-Q8_0.",
    );
    const absent = start(['--gpu', '--port', '0', '--model', './nothing']);
    expect((await absent.exit).code).toBe(1);
    expect(absent.output.stderr).toMatch(/there is no file or folder .*nothing\./);
  });
});

/** Longer than all limits of an orderly stop together: after it the host exits in any case. */
const hardLimitMs = 4500;
/** Whether the engine is at a request. */
const running = async (url: string) => {
  const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
  return slots.some(({ is_processing }) => is_processing);
};

describe('signals', () => {
  test.each(['SIGINT', 'SIGTERM'] as const)('%s on an idle host exits 0 soon', async (signal) => {
    const host = start(['--gpu', '--port', '0'], {}, longLimits(400));
    const url = await host.url();
    await (await fetch(`${url}/health`)).text(); // leaves a kept-alive connection
    host.kill(signal);
    expect(await host.exit).toEqual({ code: 0, signal: null });
  });

  test('a short generation is finished, and new connections are refused', async () => {
    const host = start(['--gpu', '--port', '0'], { pieces: 20, delayMs: 30 }, longLimits(400));
    const url = await host.url();
    const rest = await begun(await chat(url, true));
    host.kill('SIGTERM');
    await until(() => refuses(url));
    expect(await rest()).toContain('[DONE]');
    expect(await host.exit).toEqual({ code: 0, signal: null });
  });

  test('while it finishes a generation, the control socket says that it is alive and not ready', async () => {
    const args = ['--gpu', '--port', '0', '--control-port', '0'];
    const host = start(args, { pieces: 20, delayMs: 30 }, longLimits(400));
    const url = await host.url();
    const control = /control at (http:[^)]+)/.exec(host.output.stdout)?.[1] ?? '';
    const statuses = async () => {
      const answers = await Promise.all(['/ready', '/health'].map((path) => fetch(control + path)));
      return answers.map(({ status }) => status);
    };
    expect(await statuses()).toEqual([200, 200]);
    const rest = await begun(await chat(url, true));
    host.kill('SIGTERM');
    await until(() => refuses(url));
    expect(await statuses()).toEqual([503, 200]);
    const reason = (await (await fetch(`${control}/ready`)).json()) as { error: { code: string } };
    expect(reason.error.code).toBe('shutting_down');
    expect(await rest()).toContain('[DONE]');
    expect(await host.exit).toEqual({ code: 0, signal: null });
  });

  test('a long generation is aborted: an error frame, exit 0 within 5 s', async () => {
    const host = start(['--gpu', '--port', '0'], { pieces: 100_000, delayMs: 10 }, longLimits(hardLimitMs));
    const url = await host.url();
    const response = await chat(url, true);
    host.kill('SIGINT');
    const text = await response.text();
    expect(text).toContain('"code":"shutting_down"');
    expect(text).not.toContain('[DONE]');
    expect(await host.exit).toEqual({ code: 0, signal: null });
  });

  test('a hung device does not hold it: requests get a 503, exit 0 within 5 s', async () => {
    const host = start(['--gpu', '--port', '0'], { hang: true, hangOnClose: true }, longLimits(hardLimitMs));
    const url = await host.url();
    const answer = chat(url);
    await until(() => running(url));
    host.kill('SIGTERM');
    const exit = await host.exit;
    expect((await answer).status).toBe(503);
    expect(exit).toEqual({ code: 0, signal: null });
  });

  test('a second signal exits at once with 130', async () => {
    const host = start(['--gpu', '--port', '0'], { hang: true, hangOnClose: true }, longLimits(400));
    const url = await host.url();
    chat(url).catch(() => undefined);
    await until(() => running(url));
    host.kill('SIGINT');
    await until(() => refuses(url));
    await untilNextSignal();
    host.kill('SIGINT');
    expect(await host.exit).toEqual({ code: 130, signal: null });
  });

  test('a signal while the model loads exits 0', async () => {
    const host = start(['--gpu', '--port', '0'], { loadMs: 60_000 }, longLimits(400));
    await host.waitFor('stderr', /notice/);
    host.kill('SIGINT');
    expect(await host.exit).toEqual({ code: 0, signal: null });
    expect(host.output.stdout).not.toContain('ready');
  });
});

describe('pull', () => {
  test('gets what it was asked for, and prints where it lies', async () => {
    const folder = freshDataDir();
    const host = start(['pull', 'owner/repo', '--data-dir', folder]);
    expect((await host.exit).code).toBe(0);
    expect(host.output.stdout).toContain(`${folder}/models/owner/repo.gguf`);
    expect(host.output.stdout).toContain('--gpu --model');
  });

  test('a signal ends it with 130', async () => {
    const host = start(['pull', 'owner/repo'], { loadMs: 60_000, tty: true });
    await host.waitFor('stderr', /f\.gguf/);
    host.kill('SIGINT');
    expect(await host.exit).toEqual({ code: 130, signal: null });
    expect(host.output.stderr).toMatch(/lathe: interrupted\n$/);
  });
});

/** Hostile folders, hubs and names: nothing escapes the folder, hangs or writes control sequences to the terminal. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { formatTable } from '../../src/cli/models/format-table.ts';
import { pulledModels } from '../../src/cli/models/pulled-models.ts';
import { formatJson, printable } from '../../src/terminal/printable.ts';
import { progressBar } from '../../src/cli/progress.ts';
import { ModelFileError } from '../../src/engine/index.ts';
import { openFile } from '../../src/platform/node-file.ts';
import { chooseModel } from '../../src/pull/choose.ts';
import { pull } from '../../src/pull/pull.ts';
import { serve } from '../support/local-server.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-places-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the folder of models', () => {
  it('ends where a link leads to another folder: what it finds may be removed', async () => {
    const models = join(folder, 'models');
    const outside = join(folder, 'outside');
    for (const place of [join(models, 'o--m'), outside]) {
      await mkdir(place, { recursive: true });
      await writeFile(join(place, 'a.gguf'), 'x');
    }
    await symlink(outside, join(models, 'o--linked'));
    await symlink('.', join(models, 'again'));
    await symlink(join(outside, 'a.gguf'), join(models, 'o--m', 'b.gguf'));
    const found = await pulledModels(models);
    expect(found.map(({ name }) => name)).toEqual(['o--m/a', 'o--m/b']);
  });

  it('keeps what hidden folders hold to them', async () => {
    await mkdir(join(folder, '.cache'), { recursive: true });
    await writeFile(join(folder, '.cache', 'a.gguf'), 'x');
    expect(await pulledModels(folder)).toEqual([]);
  });
});

describe('a file', () => {
  it.skipIf(process.platform === 'win32')('that is a pipe is refused, not waited for', async () => {
    const path = join(folder, 'pipe.gguf');
    await promisify(execFile)('mkfifo', [path]);
    await expect(openFile(path)).rejects.toThrow(
      new ModelFileError('unreadable', `${path} is not a regular file`),
    );
  });
});

describe('names for a terminal', () => {
  const name = 'a\u001b]0;t\u0007\n\u009b31m\u202eb';

  it('command nothing', () => {
    expect(printable(name)).toBe('a\ufffd]0;t\ufffd\ufffd\ufffd31m\ufffdb');
    expect(formatTable(['NAME', 'X'], [[name, 'y']])).toMatch(/^NAME +X\na\ufffd[^\p{Cc}]* {2}y\n$/u);
    const written: string[] = [];
    progressBar({ isTTY: true, columns: 80, write: (text) => written.push(text) }, false).show(name, 1, 2);
    expect(written.join('').replace('\r\u001b[2K', '')).toMatch(/^[^\p{Cc}]+$/u);
  });

  it('are whole in JSON, which stays printable', () => {
    const text = formatJson([{ name }]);
    expect(JSON.parse(text)).toEqual([{ name }]);
    expect(text.replaceAll('\n', '')).toMatch(/^[^\p{Cc}\u202e]+$/u);
  });
});

describe('the list of a hub', () => {
  const oid = '0'.repeat(40);
  const pullFrom = async (listing: unknown): Promise<unknown> => {
    const server = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(listing));
    });
    try {
      return await pull({ repo: 'o/m', destination: folder, endpoint: server.url }).catch(
        (error: unknown) => error,
      );
    } finally {
      await server.close();
    }
  };

  it.each([
    ['a path that is a number', { path: 5, size: 1, oid }],
    ['a size below 0', { path: 'a.gguf', size: -1, oid }],
    ['a size that is a text', { path: 'a.gguf', size: '1', oid }],
    ['a checksum that is a number', { path: 'a.gguf', size: 1, oid: 7 }],
    ['a large file without a checksum', { path: 'a.gguf', size: 1, oid, lfs: { size: 1 } }],
  ])('with %s is refused, and nothing is made of it', async (_, entry) => {
    expect(await pullFrom([{ type: 'file', ...entry }])).toMatchObject({
      name: 'PullError',
      code: 'server',
      message: expect.stringContaining('the file list of o/m is not valid'),
    });
    expect(await readdir(folder)).toEqual([]);
  });

  it.each(['../../a.gguf', '/a.gguf', 'a\u001b[2J.gguf', 'a\nb.gguf'])(
    'that names %j is refused',
    async (path) => {
      expect(await pullFrom([{ type: 'file', path, size: 1, oid }])).toMatchObject({ code: 'server' });
      expect(existsSync(join(folder, '..', 'a.gguf'))).toBe(false);
    },
  );

  it('that claims sets of 99999 parts is looked through without naming them all', () => {
    const checksum = { kind: 'sha256', hex: '' } as const;
    const files = Array.from({ length: 3000 }, (_, index) => ({
      path: `m${index}-00001-of-99999.gguf`,
      sizeBytes: 1,
      checksum,
    }));
    expect(() => chooseModel(files, 'm7-00001-of-99999.gguf')).toThrow(
      /has only 1 parts of m7-00001-of-99999\.gguf; missing: m7-00002-of-99999\.gguf.* and 99990 more/,
    );
  });
});

/** Notices that a download waits: on the command line, in the start output, and for clients of Ollama's wire. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pullModel } from '../../src/cli/pull.ts';
import { SharedDownloads } from '../../src/cli/store/shared-downloads.ts';
import type { CliContext } from '../../src/cli/cli-context.ts';
import { pullLines } from '../../src/planes/ollama/progress.ts';

const notice =
  'tiny.gguf, 1 MiB of 2 MiB: no data for 10 s; the connection is dropped after 30 s without any';

describe('a notice of a download', () => {
  it.each([
    ['is a line on stderr', false, `${notice}\n`],
    ['is left out with --quiet', true, ''],
  ])('%s', async (_, quiet, expected) => {
    const folder = await mkdtemp(join(tmpdir(), 'lathe-pull-'));
    let written = '';
    const world = {
      env: {},
      home: folder,
      stdout: { write: () => true },
      stderr: { write: (text: string) => (written += text) },
      async pull({ onNotice }: Parameters<CliContext['pull']>[0]) {
        onNotice(notice);
        return { path: 'x', alreadyPresent: false };
      },
    } as unknown as CliContext;
    try {
      const { signal } = new AbortController();
      await pullModel(
        { verb: 'pull', repo: 'o/n', options: {} } as never,
        { quiet, data_dir: folder },
        world,
        signal,
      );
      expect(written).toBe(expected);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('is a line of the stream of everybody who waits for the download', async () => {
    const downloads = new SharedDownloads(async (_reference, { onNotice }) => {
      onNotice(notice);
      return 'path';
    });
    const stream = async () => {
      const statuses: string[] = [];
      const { signal } = new AbortController();
      const lines = pullLines(({ onNotice }) =>
        downloads.pull({ repo: 'o/n' }, { onProgress: () => {}, onNotice }, signal),
      );
      for await (const { status } of lines) statuses.push(status);
      return statuses;
    };
    const expected = ['pulling manifest', notice, 'verifying sha256 digest', 'writing manifest', 'success'];
    expect(await Promise.all([stream(), stream()])).toEqual([expected, expected]);
  });
});

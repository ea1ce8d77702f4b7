import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Recorder } from '../../src/recorder/recorder.ts';
import { killCount, linesOf, pause, randomFrom, report } from '../support/kills/process.ts';
import { eventsOf, filesWith } from '../support/recorded.ts';
import { recorderWorker } from '../support/recorders.ts';
import { rounds } from '../support/tier.ts';
import { supportProgram } from '../support/host.ts';

const program = supportProgram('kills/recorder-actor');
const kills = killCount(rounds(6, 3));
/** When a process is killed. */
const moments = ['purging', 'anywhere', 'purged'] as const;

it(`a process that records and is killed, ${kills} times`, {
  timeout: 600_000 + kills * 15_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-recorder-kills-'));
  const seed = Date.now() % 1_000_000;
  const random = randomFrom(seed);
  let [accepted, finished] = [0, 0];
  /** Acknowledged, and not purged yet. */
  let kept: string[] = [];
  for (let round = 0; round < kills; round++) {
    const message = `seed ${seed}, round ${round}`;
    const child = spawn(process.execPath, [program, folder, `r${round}`], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const out = linesOf(child);
    expect(await out.sees(/^open$/), `${message}: ${out.stderr()}`).toBe(true);
    const moment = moments[round % moments.length];
    if (moment !== 'anywhere')
      expect(await out.sees(moment === 'purging' ? /^purging/ : /^purged/)).toBe(true);
    await pause(moment === 'purging' ? random(12) : random(150));
    child.kill('SIGKILL');
    await out.ended;
    expect(out.stderr(), message).toBe('');

    const gone: string[] = [];
    let purging = false;
    for (const line of out.lines) {
      const ids = /^acked (.*)/.exec(line)?.[1]?.split(' ') ?? [];
      kept.push(...ids);
      accepted += ids.length;
      if (line.startsWith('purged')) gone.push(...kept.splice(0));
      purging = line === 'purging';
    }
    const recorder = await Recorder.open({
      folder,
      worker: recorderWorker,
      secrets: [],
      onFault: (fault) => expect.fail(`${message}: ${fault}`),
      onNotice: () => finished++,
    });
    const there = (await eventsOf(recorder, 'agent')).map((row) => String(row['event_id']));
    expect(new Set(there).size, message).toBe(there.length);
    // A purge that was cut off has been done by now, or had not begun.
    if (purging && !kept.some((id) => there.includes(id))) gone.push(...kept.splice(0));
    for (const id of kept) expect(there, message).toContain(id);
    expect(filesWith(folder, ...gone), message).toEqual([]);
    const generations = new Set(readdirSync(folder).map((name) => /^agent(?:\.\d+)?\.db/.exec(name)?.[0]));
    generations.delete(undefined);
    expect(generations.size, message).toBeLessThanOrEqual(1);
    let reviewed = 0;
    for (let after: number | null = 0; after !== null; ) {
      const page: Awaited<ReturnType<Recorder['review']>> = await recorder.review({ after, limit: 1000 });
      for (const { act, details } of page.entries)
        if (act === 'ingest') reviewed += Number(details['accepted']);
      after = page.next;
    }
    expect(reviewed, message).toBeGreaterThanOrEqual(accepted);
    // What was stored and not acknowledged is there from here on.
    kept = there;
    await recorder.close();
  }
  expect(accepted).toBeGreaterThan(0);
  report({ accepted, finished, seed });
  rmSync(folder, { recursive: true });
});

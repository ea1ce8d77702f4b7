import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Recorder } from '../../src/recorder/recorder.ts';
import { anEvent, armed, eventsOf, filesWith } from '../support/recorded.ts';
import { recorders, recorderWorker } from '../support/recorders.ts';
import { noDisks, smallDisk } from '../support/small-disk.ts';

const open = recorders();
const reason = noDisks();
const describeDisks = reason === undefined ? describe : describe.skip;
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function onDisk(size: string) {
  const disk = smallDisk(size);
  undo.push(disk.remove);
  const folder = join(disk.folder, 'recorder');
  const faults: string[] = [];
  const recorder = await Recorder.open({
    folder,
    worker: recorderWorker,
    secrets: [],
    onFault: (fault) => faults.push(fault),
    onNotice: () => undefined,
  });
  undo.push(() => recorder.close());
  return { disk, folder, recorder, faults };
}

describeDisks(reason === undefined ? 'a full disk' : `a full disk: skipped, ${reason}`, () => {
  it('refuses events, loses no acknowledged ones, and continues when there is space', async () => {
    const { disk, recorder } = await onDisk('6m');
    const token = await armed(recorder, 'agent');
    const acknowledged: string[] = [];
    const send = async (id: string) => {
      await recorder.ingest(token, [anEvent(id, { content: 'x'.repeat(20_000) })], 'bearer');
      acknowledged.push(id);
    };
    await send('first');
    disk.fill(200_000);
    let refusal: unknown;
    for (let index = 0; refusal === undefined && index < 90; index++)
      await send(`e${index}`).catch((error: unknown) => {
        refusal = error;
      });
    expect(refusal).toMatchObject({ name: 'RecorderError', kind: 'unavailable', code: 'storage_full' });
    recorder.record('agent', [anEvent('captured', { content: 'x'.repeat(20_000) })]);
    disk.makeRoom();
    await send('after');
    const there = (await eventsOf(recorder, 'agent')).map((row) => row['event_id']);
    for (const id of acknowledged) expect(there).toContain(id);
    expect(new Set(there).size).toBe(there.length);
  });

  it('does not keep a history from being purged', async () => {
    const { disk, recorder, folder } = await onDisk('6m');
    const token = await armed(recorder, 'agent');
    const texts = Array.from({ length: 30 }, (_, index) =>
      anEvent(`${index}`, { content: 'planted'.repeat(5000) }),
    );
    await recorder.ingest(token, texts, 'bearer');
    disk.fill();
    await expect(recorder.change('agent', { armed: false }, 'bearer')).rejects.toMatchObject({
      code: 'storage_full',
    });
    expect(await recorder.purge('agent', 'bearer')).toMatchObject({ events: 30, verified: true });
    expect(filesWith(folder, 'planted')).toEqual([]);
    expect((await recorder.review({ limit: 50 })).entries.at(-1)).toMatchObject({ act: 'purge' });
    expect(await recorder.ingest(token, [anEvent('new')], 'bearer')).toMatchObject({ accepted: 1 });
  });
});

it('a thread that cannot start causes a refusal, and the host continues', async () => {
  const { recorder, faults } = await open('threadless', { worker: '/nowhere/recorder-worker.ts' });
  await recorder.change('agent', { armed: true }, 'bearer');
  await recorder.grant(
    { rack: 'agent', verbs: ['write'], expiresAt: new Date(Date.now() + 1e6), to: 'bearer' },
    'operator',
  );
  const { token } = await recorder.mintToken({ rack: 'agent' }, 'operator');
  recorder.record('agent', [anEvent('a'), anEvent('b')]);
  for (let times = 0; times < 2; times++)
    await expect(recorder.ingest(token, [anEvent('c')], 'bearer')).rejects.toMatchObject({
      kind: 'unavailable',
    });
  await recorder.close();
  expect(faults).toContainEqual(expect.stringContaining("2 events of the rack 'agent'"));
});

it('a closed recorder refuses', async () => {
  const { recorder } = await open('closed');
  await Promise.all([recorder.close(), recorder.close()]);
  await expect(recorder.racks()).rejects.toMatchObject({ kind: 'unavailable', code: 'recorder_closed' });
  expect(() => recorder.record('agent', [anEvent('a')])).not.toThrow();
});

it('a folder that cannot be created is reported', async () => {
  const { folder } = await open('told');
  const beneath = join(folder, 'recorder.db', 'deeper');
  await expect(open('x', { folder: beneath })).rejects.toThrow(/cannot use the recorder's folder .*deeper/);
  rmSync(join(folder, '..', 'x'), { recursive: true, force: true });
});

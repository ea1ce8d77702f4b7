/**
 * A process that ingests and purges until it is killed: `recorder-actor.ts FOLDER NAME`. Writes `open`, `acked <id>...` when
 * events are acknowledged, `purging` and `purged <events>`.
 */
import { writeSync } from 'node:fs';
import { Recorder } from '../../../src/recorder/recorder.ts';
import { anEvent, armed } from '../recorded.ts';
import { entryPath } from '../host.ts';

const [folder = '', name = ''] = process.argv.slice(2);
const say = (line: string) => writeSync(1, `${line}\n`);
const recorder = await Recorder.open({
  folder,
  worker: entryPath('recorder-worker'),
  secrets: [],
  onFault: say,
  onNotice: say,
});
const token = await armed(recorder, 'agent');
say('open');

let next = 0;
async function ingest(): Promise<void> {
  const ids = Array.from({ length: 1 + Math.floor(Math.random() * 4) }, () => `<${name}.${next++}>`);
  const events = ids.map((id) => anEvent(id, { content: id + 'x'.repeat(Math.random() * 5000) + id }));
  try {
    await recorder.ingest(token, events, 'bearer');
    say(`acked ${ids.join(' ')}`);
  } catch (error) {
    if ((error as { kind?: string }).kind !== 'too_many') throw error;
  }
}

for (;;) {
  await Promise.all([ingest(), ingest(), ingest()]);
  if (Math.random() > 0.2) continue;
  say('purging');
  const { events } = await recorder.purge('agent', 'bearer');
  say(`purged ${events}`);
}

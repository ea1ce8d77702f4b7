import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Recorder } from '../../src/recorder/recorder.ts';
import type { NewEvent } from '../../src/recorder/types.ts';
import type { RackId } from '../../src/tracing/index.ts';

/** Which files of a folder have one of these texts in their bytes, wherever. */
export function filesWith(folder: string, ...texts: readonly string[]): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .flatMap(({ parentPath, name }) => {
      const bytes = readFileSync(join(parentPath, name));
      return texts.filter((text) => bytes.includes(text)).map((text) => `${name}: ${text}`);
    });
}

/** Rows of a rack's history, oldest first. */
export async function eventsOf(recorder: Recorder, rack: RackId): Promise<Record<string, unknown>[]> {
  const { racks } = await recorder.transcripts.readable('bearer');
  const path = racks.find((readable) => readable.rack === rack)?.path;
  if (path === undefined) return [];
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return db.prepare('select * from events order by seq').all();
  } finally {
    db.close();
  }
}

export const anEvent = (id: string, more: Partial<NewEvent> = {}): NewEvent => ({
  id,
  at: '2030-01-01T00:00:00.000Z',
  kind: 'message',
  ...more,
});

/** Arms a rack, lets the bearer read and write it, and mints a token. */
export async function armed(
  recorder: Recorder,
  rack: RackId,
  policy: NonNullable<Parameters<Recorder['change']>[1]['policy']> = { content: 'full' },
  now = Date.now(),
): Promise<string> {
  await recorder.change(rack, { armed: true, policy }, 'bearer');
  await recorder.grant(
    { rack, verbs: ['read', 'write'], expiresAt: new Date(now + 3000 * 86_400_000), to: 'bearer' },
    'operator',
  );
  return (await recorder.mintToken({ rack }, 'operator')).token;
}

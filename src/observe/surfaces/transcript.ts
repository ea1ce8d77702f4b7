import { racks } from '../../tracing/index.ts';
import type { ReadableRack, Surface } from '../types.ts';
import { textLiteral } from './sql.ts';
import { integer, json, required, text, time } from './columns.ts';

/** Columns of the events table in a rack history (src/recorder). */
export const eventColumns =
  'seq event_id at received_at source kind subject role model content attributes bytes redacted'.split(' ');

/** A rack whose history file is attached under the rack's name. */
export type AttachedRack = Pick<ReadableRack, 'rack' | 'after'>;

/** SQLite subquery for the events of attached racks. Without racks it has no rows. */
export function eventsSql(attached: readonly AttachedRack[]): string {
  const known = racks.flatMap((rack) => attached.filter((one) => one.rack === rack).slice(0, 1));
  if (known.length === 0)
    return `(select ${['rack', 'tick', ...eventColumns].map((name) => `null as ${name}`).join(', ')} where 0)`;
  const parts = known.map(
    ({ rack, after = 0 }) =>
      `select ${textLiteral(rack).sqlite} as rack, seq as tick, ${eventColumns.join(', ')} from "${rack}".events${after > 0 ? ` where seq > ${Math.trunc(after)}` : ''}`,
  );
  return `(${parts.join(' union all ')})`;
}

export const transcript: Surface = {
  name: 'transcript',
  description: 'Recorded conversation content, in racks that the caller has a grant to read.',
  key: ['rack', 'seq'],
  time: 'at',
  source: 'racks',
  columns: [
    text('rack', 'derived', 'agent, completions, workflows, gateway or external.', required),
    integer('seq', 'derived', 'Sequence number in the rack.', required),
    text('event_id', 'claimed', 'Event id given by the sender.', required),
    time('at', 'claimed', 'When the event happened, according to the sender.', required),
    time('received_at', 'measured', 'When the recorder received the event.', required),
    text('source', 'derived', 'host, or token:ID for events that a client sent.', required),
    text('kind', 'claimed', 'message, reasoning, tool_call, tool_result and so on.', required),
    text('subject', 'claimed', 'Completion, task, run or session that the event belongs to.'),
    text('role', 'claimed', 'Role of the speaker.'),
    text('model', 'claimed', 'Model of the request or the answer.'),
    text('content', 'claimed', 'Content, if the rack’s policy records it.', { readOnly: true }),
    json('attributes', 'claimed', 'Metadata.'),
    integer('bytes', 'measured', 'Size of the stored event.', { ...required, unit: 'bytes' }),
    integer('redacted', 'measured', 'Number of passages redacted before the event was stored.', {
      ...required,
      unit: 'passages',
    }),
  ],
};

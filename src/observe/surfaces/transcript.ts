import { racks } from '../../watch/index.ts';
import type { ReadableRack, Surface } from '../types.ts';
import { literal } from './sql.ts';
import { integer, json, required, text, time } from './columns.ts';

/** Columns of a history's table of events, which is of the recorder. */
const stored =
  'seq event_id at received_at source kind subject role model content attributes bytes redacted'.split(' ');

/** A rack whose file is attached under its name. */
export type AttachedRack = Pick<ReadableRack, 'rack' | 'after'>;

/** The events of racks whose files are attached under their names; without one, no rows. SQLite's words. */
export function eventsOf(attached: readonly AttachedRack[]): string {
  const known = racks.flatMap((rack) => attached.filter((one) => one.rack === rack).slice(0, 1));
  if (known.length === 0)
    return `(select ${['rack', 'tick', ...stored].map((name) => `null as ${name}`).join(', ')} where 0)`;
  const parts = known.map(
    ({ rack, after = 0 }) =>
      `select ${literal(rack).sqlite} as rack, seq as tick, ${stored.join(', ')} from "${rack}".events${after > 0 ? ` where seq > ${Math.trunc(after)}` : ''}`,
  );
  return `(${parts.join(' union all ')})`;
}

export const transcript: Surface = {
  name: 'transcript',
  description: 'What the recorder kept of what was said, in racks that somebody granted reading of.',
  key: ['rack', 'seq'],
  time: 'at',
  source: 'racks',
  columns: [
    text('rack', 'derived', 'agent, completions, workflows, gateway or external.', required),
    integer('seq', 'derived', 'Its place in the rack.', required),
    text('event_id', 'claimed', 'Of the event, as its sender says.', required),
    time('at', 'claimed', 'When it happened, as its sender says.', required),
    time('received_at', 'measured', 'When it came to the recorder.', required),
    text('source', 'derived', 'host, or token:ID where somebody else sent it.', required),
    text('kind', 'claimed', 'message, reasoning, tool_call, tool_result and so on.', required),
    text('subject', 'claimed', 'The completion, task, run or session that it is about.'),
    text('role', 'claimed', 'Who says it.'),
    text('model', 'claimed', 'The model that is asked, or answers.'),
    text('content', 'claimed', 'What was said, where the rack keeps it.', { readOnly: true }),
    json('attributes', 'claimed', 'Circumstances.'),
    integer('bytes', 'measured', 'What it takes up.', { ...required, unit: 'bytes' }),
    integer('redacted', 'measured', 'Passages that were taken out before it was stored.', {
      ...required,
      unit: 'passages',
    }),
  ],
};

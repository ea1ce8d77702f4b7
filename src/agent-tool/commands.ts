import { resolve } from 'node:path';
import { UsageError } from '../config/options.ts';
import type { TaskRow } from '../client/index.ts';
import { splitList } from '../terminal/arguments.ts';
import { formatJson, printable } from '../terminal/printable.ts';
import type { OutputStyle, Style } from '../terminal/style.ts';
import { columnWidths, tableLine, type TableCell, type TableColumn } from '../terminal/table.ts';
import { type CommandHandler, exitCodes } from './context.ts';
import { changeText } from './decide.ts';
import { EventText } from './event-text.ts';

const states = ['running', 'completed', 'failed', 'cancelled'] as const;

export const list: CommandHandler = async ({ lathe, flags, look, write }) => {
  const state = states.find((one) => one === flags.state);
  if (flags.state !== undefined && state === undefined)
    throw new UsageError([`--state: expected one of ${states.join(', ')}, got '${flags.state}'`]);
  const tasks = await lathe.tasks.list(state === undefined ? {} : { state });
  write(flags.json ? `${formatJson(tasks)}\n` : `${taskLines(tasks, look).join('\n')}\n`);
  return exitCodes.fine;
};

const stateStyles: Readonly<Partial<Record<TaskRow['state'], Style>>> = {
  running: 'note',
  completed: 'good',
  failed: 'bad',
};

export function taskLines(tasks: readonly TaskRow[], look: OutputStyle): string[] {
  if (tasks.length === 0) return ['There are no tasks.'];
  const rows = tasks.map((task): TableCell[] => {
    const state = task.waiting_on === 'approval' ? 'waits for you' : task.state;
    const style = task.waiting_on === 'approval' ? 'warn' : stateStyles[task.state];
    return [
      task.id,
      task.agent,
      style === undefined ? state : [style, state],
      task.started_at.slice(0, 16).replace('T', ' '),
      task.title,
    ];
  });
  return lines(
    [
      { title: 'task' },
      { title: 'agent' },
      { title: 'state' },
      { title: 'started (UTC)' },
      { title: 'prompt', minWidth: 20 },
    ],
    rows,
    look,
  );
}

export const show: CommandHandler = async ({ lathe, words: [id = ''], flags, look, write }) => {
  const task = await lathe.tasks.get(id);
  if (flags.json) {
    write(`${formatJson(task)}\n`);
    return exitCodes.fine;
  }
  write(`${look.paint('strong', `${id}, ${task.agent}, ${task.state}`)}: ${printable(task.title)}\n`);
  const text = new EventText(write, look);
  // A running task is shown up to its last stored event.
  for (let after = -1; after < task.last_seq; ) {
    const before = after;
    for await (const event of lathe.tasks.events(id, { after })) {
      after = event.seq;
      text.add(event);
      if (after >= task.last_seq) break;
    }
    if (after === before) break;
  }
  text.end();
  if (task.waiting_on === 'approval') write('It waits for you: node dist/agent.js pending\n');
  return exitCodes.fine;
};

export const stop: CommandHandler = async ({ lathe, words: [id = ''], write }) => {
  await lathe.tasks.stop(id);
  write(`${printable(id)} has ended.\n`);
  return exitCodes.fine;
};

export const pending: CommandHandler = async ({ lathe, flags, look, write }) => {
  const changes = await lathe.pending.list();
  if (flags.json) write(`${formatJson(changes)}\n`);
  else if (changes.length === 0) write('Nothing waits for you.\n');
  else for (const { id } of changes) write(`${changeText(await lathe.pending.get(id), look.paint)}\n`);
  return exitCodes.fine;
};

export const approve: CommandHandler = async ({ lathe, words, write }) => {
  const [only = ''] = words;
  if (words.length === 1) await lathe.pending.approve(only);
  const applied = words.length === 1 ? words : await lathe.pending.approveTogether(words);
  write(`${applied.map(printable).join(', ')} ${applied.length === 1 ? 'was' : 'were'} made.\n`);
  return exitCodes.fine;
};

export const discard: CommandHandler = async ({ lathe, words: [id = ''], flags, write }) => {
  await lathe.pending.discard(id, flags.note);
  write(`${printable(id)} was declined; nothing was changed.\n`);
  return exitCodes.fine;
};

export const agents: CommandHandler = async ({ lathe, flags, look, write }) => {
  const all = await lathe.agents.list();
  const rows = all.map(({ name, model, grants }): TableCell[] => [
    name,
    model ?? 'resident',
    (grants?.tools ?? []).join(', '),
    [...(grants?.read ?? []), ...(grants?.write ?? []).map((path) => `${path} (writes)`)].join(', '),
  ]);
  const columns = [
    { title: 'agent' },
    { title: 'model' },
    { title: 'tools', minWidth: 20 },
    { title: 'folders', minWidth: 20 },
  ];
  write(flags.json ? `${formatJson(all)}\n` : `${lines(columns, rows, look).join('\n')}\n`);
  return exitCodes.fine;
};

export const create: CommandHandler = async ({ lathe, words: [name = ''], flags, environment, write }) => {
  const folders = (paths: readonly string[] | undefined) =>
    splitList(paths).map((path) => resolve(environment.cwd, path));
  const { model, instructions = 'You are a careful assistant. Use your tools, and say what you did.' } =
    flags;
  await lathe.agents.put({
    name,
    instructions,
    ...(model === undefined ? {} : { model }),
    grants: {
      tools: splitList(flags.tools),
      read: folders(flags.read),
      write: folders(flags.write),
      network: [],
      auto_approve: splitList(flags['auto-approve']),
    },
  } as Parameters<typeof lathe.agents.put>[0]);
  write(`${printable(name)} is there; talk with it: node dist/agent.js --agent ${printable(name)}\n`);
  return exitCodes.fine;
};

function lines(
  columns: readonly TableColumn[],
  rows: readonly (readonly TableCell[])[],
  look: OutputStyle,
): string[] {
  const widths = columnWidths(columns, rows);
  const titles = columns.map(({ title }) => title);
  return [
    tableLine(columns, widths, titles, look, 'strong'),
    ...rows.map((row) => tableLine(columns, widths, row, look)),
  ];
}

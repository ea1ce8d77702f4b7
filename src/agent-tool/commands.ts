import { resolve } from 'node:path';
import { UsageError } from '../config/options.ts';
import type { TaskRow, TurnEvent } from '../client/index.ts';
import { splitList } from '../terminal/arguments.ts';
import { printableLine } from '../terminal/lines.ts';
import { formatJson, printable } from '../terminal/printable.ts';
import type { OutputStyle, Style } from '../terminal/style.ts';
import { columnWidths, tableLine, type TableCell, type TableColumn } from '../terminal/table.ts';
import { type CommandHandler, exitCodes } from './context.ts';
import { changeText, stopTask } from './decide.ts';
import { EventText } from './event-text.ts';

const states = ['running', 'waiting', 'completed', 'failed', 'cancelled'] as const;

export const list: CommandHandler = async ({ lathe, flags, look, write }) => {
  const state = states.find((one) => one === flags.state);
  if (flags.state !== undefined && state === undefined)
    throw new UsageError([`--state: expected one of ${states.join(', ')}, got '${flags.state}'`]);
  // A task that waits for a person is a running one.
  const all = await lathe.tasks.list(
    state === undefined ? {} : { state: state === 'waiting' ? 'running' : state },
  );
  const tasks = state === 'waiting' ? all.filter(isWaiting) : all;
  write(flags.json ? `${formatJson(tasks)}\n` : `${taskLines(tasks, look).join('\n')}\n`);
  return exitCodes.fine;
};

const isWaiting = ({ waiting_on: on }: TaskRow): boolean => on === 'approval';

const stateStyles: Readonly<Partial<Record<TaskRow['state'], Style>>> = {
  running: 'note',
  completed: 'good',
  failed: 'bad',
};

export function taskLines(tasks: readonly TaskRow[], look: OutputStyle): string[] {
  if (tasks.length === 0) return ['There are no tasks.'];
  const rows = tasks.map((task): TableCell[] => {
    const [style, state] = isWaiting(task)
      ? (['warn', 'waiting'] as const)
      : [stateStyles[task.state], task.state];
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

export const show: CommandHandler = async (context) => {
  const {
    lathe,
    words: [id = ''],
    flags,
    look,
    write,
    environment,
  } = context;
  const task = await lathe.tasks.get(id);
  const events: TurnEvent[] = [];
  if (!flags.json)
    write(`${look.paint('strong', `${id}, ${task.agent}, ${task.state}`)}: ${printableLine(task.title)}\n`);
  const text = new EventText(write, look);
  // A running task is shown up to its last stored event.
  for (let after = -1; after < task.last_seq; ) {
    const before = after;
    for await (const event of lathe.tasks.events(id, { after })) {
      after = event.seq;
      if (flags.json) events.push(event);
      else text.add(event);
      if (after >= task.last_seq) break;
    }
    if (after === before) break;
  }
  if (flags.json) {
    write(`${formatJson({ ...task, events })}\n`);
    return exitCodes.fine;
  }
  text.end();
  if (isWaiting(task)) write(`It waits for you: ${environment.program} pending\n`);
  return exitCodes.fine;
};

export const stop: CommandHandler = async (context) => {
  const [id = ''] = context.words;
  await stopTask(id, context);
  context.write(`${printable(id)} has ended.\n`);
  return exitCodes.fine;
};

export const pending: CommandHandler = async ({ lathe, flags, look, write, cwd }) => {
  const changes = await lathe.pending.list();
  if (flags.json) write(`${formatJson(changes)}\n`);
  else if (changes.length === 0) write('Nothing waits for you.\n');
  else
    for (const { id, agent, task_id: task, run_id: run } of changes) {
      const owner = `Of ${agent}${task === undefined ? '' : ` in ${task}`}${run === undefined ? '' : ` in ${run}`}`;
      write(`${changeText(await lathe.pending.get(id), cwd, look.paint, printableLine(owner))}\n`);
    }
  return exitCodes.fine;
};

export const approve: CommandHandler = async ({ lathe, words, write }) => {
  const [only = ''] = words;
  if (words.length === 1) await lathe.pending.approve(only);
  const applied = words.length === 1 ? words : await lathe.pending.approveTogether(words);
  write(`${applied.map(printable).join(', ')} ${applied.length === 1 ? 'was' : 'were'} made.\n`);
  return exitCodes.fine;
};

export const discard: CommandHandler = async ({ lathe, words, flags, write }) => {
  const note = flags.note === undefined ? {} : { note: flags.note };
  for (const id of words) {
    await lathe.pending.discard(id, note);
    write(`${printable(id)} was declined; nothing was changed.\n`);
  }
  return exitCodes.fine;
};

export const agents: CommandHandler = async ({ lathe, flags, look, write }) => {
  const all = await lathe.agents.list();
  const rows = all.map(({ name, model, grants }): TableCell[] => [
    name,
    model ?? 'resident',
    (grants?.tools ?? []).join(', '),
    (grants?.auto_approve ?? []).join(', '),
    (grants?.network ?? []).join(', '),
    [...(grants?.read ?? []), ...(grants?.write ?? []).map((path) => `${path} (writes)`)].join(', '),
  ]);
  const columns = [
    { title: 'agent' },
    { title: 'model' },
    { title: 'tools', minWidth: 20 },
    { title: 'without asking' },
    { title: 'hosts' },
    { title: 'folders', minWidth: 20 },
  ];
  write(flags.json ? `${formatJson(all)}\n` : `${lines(columns, rows, look).join('\n')}\n`);
  return exitCodes.fine;
};

export const create: CommandHandler = async ({
  lathe,
  words: [name = ''],
  flags,
  environment,
  cwd,
  write,
}) => {
  const folders = (paths: readonly string[] | undefined) =>
    splitList(paths).map((path) => resolve(cwd, path));
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
  write(`${printable(name)} is there; talk with it: ${environment.program} --agent ${printable(name)}\n`);
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

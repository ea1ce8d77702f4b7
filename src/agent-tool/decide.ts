import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { LatheError, type PendingChangeDetail } from '../client/index.ts';
import { printableLine } from '../terminal/lines.ts';
import { printable } from '../terminal/printable.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Context } from './context.ts';
import { diffText } from './diff-text.ts';

/** `withdrawn`: decided elsewhere; `leave`: the person or the input has ended, and the change goes on waiting. */
export type Decision = 'decided' | 'withdrawn' | 'stop' | 'leave';

export interface DecisionOptions {
  readonly withdrawn: AbortSignal;
  readonly onApprove: () => void;
  /** Working folder of the task. */
  readonly cwd: string;
  /** Commands that the person allowed for the rest of the chat. */
  readonly allowed: Set<string>;
}

/** What approving a change does, as a question. */
const questions: Readonly<Record<PendingChangeDetail['kind'], string>> = {
  file_write: 'Make this change?',
  file_delete: 'Make this change?',
  exec: 'Run this command?',
  tool_call: 'Make this call?',
};

/** Shows a change and asks whether to make it, until it is decided, here or elsewhere. */
export async function decide(id: string, context: Context, options: DecisionOptions): Promise<Decision> {
  const { lathe, input, look, write, environment } = context;
  const { withdrawn, onApprove, cwd, allowed } = options;
  let isShown = false;
  let refusal = '';
  for (;;) {
    const change = await lathe.pending.get(id);
    if (refusal !== '') write(`${look.paint('bad', printable(refusal))}\n`);
    if (change.state !== 'staged') return refusal === '' ? 'decided' : 'withdrawn';
    // The summary of a command has all of it: program, arguments, folder and time limit.
    const isCommand = change.kind === 'exec';
    const isAllowed = isCommand && refusal === '' && allowed.has(change.summary);
    if (isAllowed) write(`${id} ${printableLine(change.summary)} Approved: you always allow this command.\n`);
    else if (!isShown) write(changeText(change, cwd, look.paint));
    isShown = true;
    refusal = '';
    const canEdit = change.content !== undefined && input.isTerminal;
    const choices = ['[y]es', '[n]o', ...(canEdit ? ['[e]dit'] : []), ...(isCommand ? ['[a]lways'] : [])];
    const answer = isAllowed
      ? { line: 'y' }
      : await input.ask(`${questions[change.kind]} ${choices.join(', ')}: `, 'decision', withdrawn);
    if (answer === 'withdrawn') return 'withdrawn';
    if (answer === 'end') return 'leave';
    if (answer === 'interrupted') {
      write(`\n${staysPending([id], environment.program)}`);
      const next = await input.ask(
        'Enter asks again, Ctrl-C stops the task, Ctrl-D ends the chat: ',
        'decision',
        withdrawn,
      );
      if (next === 'withdrawn') return 'withdrawn';
      if (next === 'interrupted') return 'stop';
      if (next === 'end' || isExit(next.line)) return 'leave';
      continue;
    }
    if (isExit(answer.line)) return 'leave';
    const [word = '', ...note] = answer.line.trim().split(/\s+/);
    try {
      const isAlways = isCommand && /^a(lways)?$/i.test(word);
      if (isAlways || /^y(es)?$/i.test(word)) {
        onApprove();
        if (isAlways) allowed.add(change.summary);
        await lathe.pending.approve(id, { digest: change.digest });
        return 'decided';
      }
      if (/^n(o)?$/i.test(word)) {
        const reason = note.length > 0 ? note.join(' ') : await askNote(input, withdrawn);
        if (reason === undefined) continue;
        await lathe.pending.discard(id, reason === '' ? {} : { note: reason });
        return 'decided';
      }
      if (canEdit && /^e(dit)?$/i.test(word)) {
        const edited = await editText(change, environment.env);
        isShown = edited === undefined;
        if (edited === undefined) refusal = 'The editor failed; nothing was changed.';
        else await sendText(edited);
        continue;
      }
    } catch (error) {
      if (!(error instanceof LatheError) || error.isTransient) throw error;
      refusal = error.message;
      if (error.code === 'changed') isShown = false;
      continue;
    }
    write(
      `Answer ${['y', 'n', ...(canEdit ? ['e'] : []), ...(isCommand ? ['a'] : [])].join(', or ')}; a reason may follow n. /exit ends the chat.\n`,
    );
  }

  /** What a person wrote is kept where it cannot be sent. */
  async function sendText({ text, file, isChanged }: Edited): Promise<void> {
    try {
      if (isChanged) await lathe.pending.edit(id, text);
    } catch (error) {
      write(
        `${look.paint('bad', `Your text was not used: ${printable(errorMessage(error))} It is in ${printable(file)}.`)}\n`,
      );
      return;
    }
    await rm(dirname(file), { recursive: true, force: true });
  }
}

export const isExit = (line: string): boolean => ['/exit', '/quit'].includes(line.trim());

/** Says how to decide on changes later. */
export const staysPending = (ids: readonly string[], program: string): string =>
  ids.length === 0
    ? ''
    : `${ids.map(printable).join(', ')} ${ids.length === 1 ? 'stays' : 'stay'} pending: ${program} approve ${printable(ids[0] ?? '')}, or discard ${printable(ids[0] ?? '')}.\n`;

/** Stops a task, and says which of its changes stay pending. */
export async function stopTask(
  id: string,
  { lathe, write, environment }: Pick<Context, 'lathe' | 'write' | 'environment'>,
): Promise<void> {
  const changes = (await lathe.pending.list()).filter(({ task_id: task }) => task === id);
  write(
    staysPending(
      changes.map((change) => change.id),
      environment.program,
    ),
  );
  await lathe.tasks.stop(id);
}

/** @returns undefined at Ctrl-C: nothing is declined */
async function askNote(input: Context['input'], withdrawn: AbortSignal): Promise<string | undefined> {
  const answer = await input.ask(
    'Why not? The agent gets this text (Enter for none): ',
    'decision',
    withdrawn,
  );
  if (answer === 'end') return '';
  return typeof answer === 'object' ? answer.line.trim() : undefined;
}

/** A change as a person decides on it. @param cwd paths are shown from there */
export function changeText(
  change: PendingChangeDetail,
  cwd: string,
  paint: Context['look']['paint'],
  owner = '',
): string {
  const { id, summary, risk, intent, diff, path } = change;
  const riskStyle = risk === 'high' ? 'bad' : risk === 'medium' ? 'warn' : 'dim';
  const lines = [
    `${paint('strong', id)} ${printableLine(summary)} ${paint(riskStyle, `[risk ${risk}]`)}`,
    ...(owner === '' ? [] : [paint('dim', owner)]),
    ...(intent === '' ? [] : [paint('dim', `Its reason: ${printableLine(intent)}`)]),
    ...(diff === undefined ? [] : [diffText(diff, { path, cwd }, paint)]),
  ];
  return `${lines.join('\n')}\n`;
}

interface Edited {
  readonly text: string;
  readonly isChanged: boolean;
  /** In a folder of its own. */
  readonly file: string;
}

/** Opens the text of a change in the person's editor. @returns undefined when the editor failed */
async function editText(
  { content = '', path = 'change.txt' }: PendingChangeDetail,
  env: Context['environment']['env'],
): Promise<Edited | undefined> {
  let folder: string | undefined;
  try {
    folder = await mkdtemp(join(tmpdir(), 'lathe-edit-'));
    const file = join(folder, basename(path));
    await writeFile(file, content, { mode: 0o600 });
    const editor = env['VISUAL'] || env['EDITOR'] || 'vi';
    // An editor may come with arguments, as in `code --wait`.
    const { status } = spawnSync('sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
    if (status === 0) {
      const text = await readFile(file, 'utf8');
      return { text, file, isChanged: text !== content };
    }
  } catch {
    // The editor removed the file, or there is no room for it.
  }
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  return undefined;
}

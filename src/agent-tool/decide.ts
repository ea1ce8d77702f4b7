import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { LatheError, type PendingChangeDetail } from '../client/index.ts';
import { printable } from '../terminal/printable.ts';
import type { Context } from './context.ts';
import { diffText } from './event-text.ts';

/** `leave`: the input has ended, and the change goes on waiting. */
export type Decision = 'decided' | 'stop' | 'leave';

/** Shows a change and asks whether to make it, until it is decided, here or elsewhere. */
export async function decide(
  id: string,
  { lathe, input, look, write, environment }: Context,
  { withdrawn, onApprove }: { readonly withdrawn: AbortSignal; readonly onApprove: () => void },
): Promise<Decision> {
  let isShown = false;
  let refusal = '';
  for (;;) {
    const change = await lathe.pending.get(id);
    if (change.state !== 'staged') return 'decided';
    if (!isShown) write(changeText(change, look.paint));
    isShown = true;
    // What was decided meanwhile needs no word.
    if (refusal !== '') write(`${look.paint('bad', printable(refusal))}\n`);
    refusal = '';
    const canEdit = change.content !== undefined && input.isTerminal;
    const answer = await input.ask(`Make this change? [y]es, [n]o${canEdit ? ', [e]dit' : ''}: `, withdrawn);
    if (answer === 'withdrawn') return 'decided';
    if (answer === 'interrupted') return 'stop';
    if (answer === 'end') return 'leave';
    const [word = '', ...note] = answer.line.trim().split(/\s+/);
    try {
      if (/^y(es)?$/i.test(word)) {
        onApprove();
        await lathe.pending.approve(id, { digest: change.digest });
        return 'decided';
      }
      if (/^n(o)?$/i.test(word)) {
        const reason = note.length > 0 ? note.join(' ') : await askNote(input, withdrawn);
        await lathe.pending.discard(id, reason);
        return 'decided';
      }
      if (canEdit && /^e(dit)?$/i.test(word)) {
        const text = await editText(change, environment.env);
        if (text === undefined) refusal = 'The editor failed; nothing was changed.';
        else if (text !== change.content) await lathe.pending.edit(id, text);
        isShown = text === undefined;
        continue;
      }
    } catch (error) {
      if (!(error instanceof LatheError) || error.isTransient) throw error;
      const hint =
        error.code === 'base_moved' ? ' Answer no, so that the agent looks at the file again.' : '';
      refusal = `${error.message}${hint}`;
      if (error.code === 'changed') isShown = false;
      continue;
    }
    write(`Answer y, or n${canEdit ? ', or e' : ''}; a reason may follow n.\n`);
  }
}

async function askNote(input: Context['input'], withdrawn: AbortSignal): Promise<string | undefined> {
  const answer = await input.ask('Why not? The agent gets this text (Enter for none): ', withdrawn);
  return typeof answer === 'object' && answer.line.trim() !== '' ? answer.line.trim() : undefined;
}

/** A change as a person decides on it. */
export function changeText(change: PendingChangeDetail, paint: Context['look']['paint']): string {
  const { id, summary, risk, intent, diff } = change;
  const riskStyle = risk === 'high' ? 'bad' : risk === 'medium' ? 'warn' : 'dim';
  const lines = [
    `${paint('strong', id)} ${printable(summary)} ${paint(riskStyle, `[risk ${risk}]`)}`,
    ...(intent === '' ? [] : [paint('dim', `Its reason: ${printable(intent)}`)]),
    ...(diff === undefined ? [] : [diffText(diff, paint)]),
  ];
  return `${lines.join('\n')}\n`;
}

/** Opens the text of a change in the person's editor. @returns undefined when the editor failed */
async function editText(
  { content = '', path = 'change.txt' }: PendingChangeDetail,
  env: Context['environment']['env'],
): Promise<string | undefined> {
  let folder: string | undefined;
  try {
    folder = await mkdtemp(join(tmpdir(), 'lathe-edit-'));
    const file = join(folder, basename(path));
    await writeFile(file, content, { mode: 0o600 });
    const editor = env['VISUAL'] || env['EDITOR'] || 'vi';
    // An editor may come with arguments, as in `code --wait`.
    const { status } = spawnSync('sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
    return status === 0 ? await readFile(file, 'utf8') : undefined;
  } catch {
    // The editor removed the file, or there is no room for it.
    return undefined;
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

import type { ChangeTool } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { answering, Refusal } from '../refusal.ts';
import { aChange, aList, aPath, aText, anObject } from './schema.ts';
import { type FileChanges, mostBytes, proposedText, type StagedFile, textAt } from './staged-file.ts';

interface Edit {
  readonly old_text: string;
  readonly new_text: string;
}
interface Args {
  readonly intent: string;
  readonly path: string;
  readonly edits: readonly Edit[];
}

const edit = anObject(
  {
    old_text: aText('Exactly as it stands in the file, with its blanks; it must occur once.', mostBytes),
    new_text: aText('What takes its place.', mostBytes),
  },
  ['old_text', 'new_text'],
);

export const fsEdit = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_edit',
  description: 'Replaces parts of a text file, one after the other. Each old text must occur exactly once.',
  source: 'builtin',
  inputSchema: aChange({ path: aPath, edits: aList(edit, 1, 20, 'Applied in this order.') }, [
    'path',
    'edits',
  ]),
  propose: (args, context) =>
    answering(async () => {
      const { path: argument, edits } = args as unknown as Args;
      const allowed = await confinement.allowed(argument, context, 'write');
      const before = await textAt(confinement, allowed, context.signal);
      if (!before) throw new Refusal(`${allowed.shown}: there is no such file; fs_write makes new ones.`);
      return proposedText({ allowed, before, after: edited(before.text, edits) }, args, context);
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
});

/** @throws Refusal that lists every edit that does not match */
function edited(before: string, edits: readonly Edit[]): string {
  const faults: string[] = [];
  let text = before;
  for (const [index, one] of edits.entries()) {
    const { old_text: old, new_text: replacement } = asInFile(text, one);
    const matches = old === '' ? 0 : occurrences(text, old);
    if (matches === 1) {
      const at = text.indexOf(old);
      text = text.slice(0, at) + replacement + text.slice(at + old.length);
      continue;
    }
    const fault =
      old === ''
        ? 'is empty; give the text that is to be replaced'
        : matches === 0
          ? 'does not occur; read the file again and copy the text exactly'
          : `occurs ${matches} times; take in more of the text around it until it occurs once`;
    faults.push(`edits[${index}].old_text ${fault}.`);
  }
  if (faults.length > 0) throw new Refusal(`Nothing was changed. ${faults.join(' ')}`);
  return text;
}

/** Converts LF to CRLF for files with CRLF line ends, because fs_read shows LF. */
function asInFile(text: string, one: Edit): Edit {
  if (text.includes(one.old_text) || one.old_text.includes('\r') || !text.includes('\r\n')) return one;
  const dos = (plain: string) => plain.replaceAll(/\r?\n/g, '\r\n');
  return { old_text: dos(one.old_text), new_text: dos(one.new_text) };
}

/** Counts occurrences, including overlapping ones. */
function occurrences(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) count += 1;
  return count;
}

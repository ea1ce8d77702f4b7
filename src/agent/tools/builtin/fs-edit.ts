import type { ChangeTool } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { withRefusalAsOutput, Refusal } from '../refusal.ts';
import { changeSchema, listSchema, pathSchema, textSchema, objectSchema } from './schema.ts';
import { viewOf } from './staged-view.ts';
import { type FileChanges, maxTextBytes, proposeText, type StagedFile, readTextFile } from './staged-file.ts';

interface Edit {
  readonly old_text: string;
  readonly new_text: string;
}
interface Args {
  readonly intent: string;
  readonly path: string;
  readonly edits: readonly Edit[];
}

const editSchema = objectSchema(
  {
    old_text: textSchema(
      'Exactly as it stands in the file, with its blanks; it must occur once.',
      maxTextBytes,
    ),
    new_text: textSchema('What takes its place.', maxTextBytes),
  },
  ['old_text', 'new_text'],
);

export const fsEdit = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_edit',
  description: 'Replaces parts of a text file, one after the other. Each old text must occur exactly once.',
  source: 'builtin',
  inputSchema: changeSchema(
    { path: pathSchema, edits: listSchema(editSchema, 1, 20, 'Applied in this order.') },
    ['path', 'edits'],
  ),
  propose: (args, context) =>
    withRefusalAsOutput(async () => {
      const { path: argument, edits } = args as unknown as Args;
      const view = await viewOf(context);
      const allowed = await confinement.resolveAllowed(argument, { ...context, view }, 'write');
      const before = await readTextFile(confinement, allowed, context, view);
      if (!before) throw new Refusal(`${allowed.shown}: there is no such file; fs_write makes new ones.`);
      return proposeText({ allowed, before, after: applyEdits(before.text, edits) }, args, context);
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
  text: changes.text,
});

/** @throws Refusal that lists every edit that does not match */
function applyEdits(before: string, edits: readonly Edit[]): string {
  const faults: string[] = [];
  let text = before;
  for (const [index, one] of edits.entries()) {
    const { old_text: oldText, new_text: replacement } = withFileLineEnds(text, one);
    const matches = oldText === '' ? 0 : countOccurrences(text, oldText);
    if (matches === 1) {
      const at = text.indexOf(oldText);
      text = text.slice(0, at) + replacement + text.slice(at + oldText.length);
      continue;
    }
    const fault =
      oldText === ''
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
function withFileLineEnds(text: string, edit: Edit): Edit {
  if (text.includes(edit.old_text) || edit.old_text.includes('\r') || !text.includes('\r\n')) return edit;
  const toCrlf = (plain: string) => plain.replaceAll(/\r?\n/g, '\r\n');
  return { old_text: toCrlf(edit.old_text), new_text: toCrlf(edit.new_text) };
}

/** Counts occurrences, including overlapping ones. */
function countOccurrences(text: string, searched: string): number {
  let count = 0;
  for (let at = text.indexOf(searched); at >= 0; at = text.indexOf(searched, at + 1)) count += 1;
  return count;
}

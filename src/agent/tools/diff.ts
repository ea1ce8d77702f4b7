import { createTwoFilesPatch, FILE_HEADERS_ONLY, formatPatch } from 'diff';

/** Maximum edit distance; beyond it the whole file is shown as replaced. */
const maxEdits = 4000;
const timeoutMs = 2000;

const toDiffLines = (text: string, sign: '+' | '-'): string[] => {
  if (text === '') return [];
  const lines = text.split('\n');
  const hasNoFinalNewline = lines.at(-1) !== '';
  if (!hasNoFinalNewline) lines.pop();
  return [
    ...lines.map((line) => sign + line),
    ...(hasNoFinalNewline ? ['\\ No newline at end of file'] : []),
  ];
};

/** Unified diff of one file, equal to what applying the change does. Undefined stands for a missing file. */
export function unifiedDiff(path: string, before: string | undefined, after: string | undefined): string {
  const from = before === undefined ? '/dev/null' : `a${path}`;
  const to = after === undefined ? '/dev/null' : `b${path}`;
  const patch = createTwoFilesPatch(from, to, before ?? '', after ?? '', undefined, undefined, {
    context: 3,
    maxEditLength: maxEdits,
    timeout: timeoutMs,
    headerOptions: FILE_HEADERS_ONLY,
  });
  return patch ?? fullReplacement(from, to, before ?? '', after ?? '');
}

function fullReplacement(from: string, to: string, before: string, after: string): string {
  const removed = toDiffLines(before, '-');
  const added = toDiffLines(after, '+');
  const count = (lines: readonly string[]) => lines.filter((line) => !line.startsWith('\\')).length;
  return formatPatch(
    {
      oldFileName: from,
      newFileName: to,
      oldHeader: undefined,
      newHeader: undefined,
      hunks: [
        {
          oldStart: removed.length === 0 ? 0 : 1,
          oldLines: count(removed),
          newStart: added.length === 0 ? 0 : 1,
          newLines: count(added),
          lines: [...removed, ...added],
        },
      ],
    },
    FILE_HEADERS_ONLY,
  );
}

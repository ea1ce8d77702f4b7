import type { ConfigEnvelope } from '../lab/types.ts';
import { isRecord } from '../util/json.ts';
import { linesOf } from './local-kernels.ts';
import { diffLines, type Hunk, hunksOf } from './line-diff.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { printable } from '../terminal/printable.ts';

interface MemberChange {
  readonly member: string;
  readonly before: unknown;
  readonly after: unknown;
}

interface KernelDiff {
  readonly kernel: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** Changed members except `source`. */
  readonly members: readonly MemberChange[];
  readonly source: readonly Hunk[];
}

export interface ConfigDiff {
  readonly kind: 'configs';
  readonly same: boolean;
  readonly members: readonly MemberChange[];
  readonly bindings: {
    readonly added: readonly string[];
    readonly removed: readonly string[];
  };
  readonly kernels: readonly KernelDiff[];
}

type SavedKernel = ConfigEnvelope['kernels'][number];

/** Compares what two saved configs do. Ignores the time and the signature, except the key. */
export function diffConfigs(before: ConfigEnvelope, after: ConfigEnvelope): ConfigDiff {
  const members = changedMembers(
    { model: before.model, key: before.signature.key_id, adapter: before.fingerprint.adapter },
    { model: after.model, key: after.signature.key_id, adapter: after.fingerprint.adapter },
  );
  const [boundBefore, boundAfter] = [bindingsOf(before), bindingsOf(after)];
  const bindings = {
    removed: boundBefore.filter((each) => !boundAfter.includes(each)),
    added: boundAfter.filter((each) => !boundBefore.includes(each)),
  };
  const names = [...new Set([...before.kernels, ...after.kernels].map((kernel) => kernel.name))];
  const kernels = names.flatMap((name) =>
    diffKernel(
      name,
      before.kernels.find((kernel) => kernel.name === name),
      after.kernels.find((kernel) => kernel.name === name),
    ),
  );
  const same = members.length + bindings.added.length + bindings.removed.length + kernels.length === 0;
  return { kind: 'configs', same, members, bindings, kernels };
}

const bindingsOf = ({ bindings }: ConfigEnvelope): string[] =>
  bindings.flatMap(({ kernel, components }) => components.map((id) => `${id} = ${kernel}`)).sort();

function diffKernel(kernel: string, before?: SavedKernel, after?: SavedKernel): KernelDiff[] {
  const { source: oldText = '', ...oldMembers } = before ?? {};
  const { source: newText = '', ...newMembers } = after ?? {};
  const source = oldText === newText ? [] : hunksOf(diffLines(textLines(oldText), textLines(newText)));
  const members =
    before && after
      ? changedMembers({ ...oldMembers, digest: undefined }, { ...newMembers, digest: undefined })
      : [];
  if (before && after && source.length + members.length === 0) return [];
  return [
    {
      kernel,
      change: before === undefined ? 'added' : after === undefined ? 'removed' : 'changed',
      members,
      source,
    },
  ];
}

const textLines = (text: string): string[] => (text === '' ? [] : linesOf(text.replace(/\n$/, '')));

function changedMembers(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): MemberChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .sort()
    .map((member) => ({ member, before: before[member], after: after[member] }))
    .filter((each) => canonical(each.before) !== canonical(each.after));
}

/** JSON text that does not depend on the order of members. */
const canonical = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, part: unknown) =>
    isRecord(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );

export function configDiffLines(diff: ConfigDiff, look: OutputStyle): string[] {
  const { paint } = look;
  if (diff.same) return ['the configs bind the same kernels to the same components'];
  const removed = (text: string) => paint('bad', `- ${printable(text)}`);
  const added = (text: string) => paint('good', `+ ${printable(text)}`);
  const changes = (members: readonly MemberChange[], indent: string) =>
    members.flatMap(({ member, before, after }) => [
      ...(before === undefined ? [] : [`${indent}${removed(`${member}: ${JSON.stringify(before)}`)}`]),
      ...(after === undefined ? [] : [`${indent}${added(`${member}: ${JSON.stringify(after)}`)}`]),
    ]);
  const { added: addedBindings, removed: removedBindings } = diff.bindings;
  return [
    ...changes(diff.members, ''),
    ...(addedBindings.length + removedBindings.length === 0
      ? []
      : [paint('strong', 'bindings'), ...removedBindings.map(removed), ...addedBindings.map(added)]),
    ...diff.kernels.flatMap((kernel) => [
      paint(
        'strong',
        `kernel ${printable(kernel.kernel)}${kernel.change === 'changed' ? '' : ` (${kernel.change})`}`,
      ),
      ...changes(kernel.members, '  '),
      ...kernel.source.flatMap((hunk) => hunkLines(hunk, look)),
    ]),
  ];
}

export function hunkLines({ before, after, lines }: Hunk, { paint }: OutputStyle): string[] {
  const oldCount = lines.filter((line) => line.kind !== 'added').length;
  const newCount = lines.filter((line) => line.kind !== 'removed').length;
  // As in `diff -u`, a side without lines refers to the line before.
  const side = (line: number, lineCount: number) => `${lineCount === 0 ? line - 1 : line},${lineCount}`;
  return [
    paint('note', `@@ -${side(before, oldCount)} +${side(after, newCount)} @@`),
    ...lines.map(({ kind, text }) => {
      const shown = printable(text.replaceAll('\t', '    '));
      if (kind === 'same') return ` ${shown}`.trimEnd();
      return kind === 'added' ? paint('good', `+${shown}`) : paint('bad', `-${shown}`);
    }),
  ];
}

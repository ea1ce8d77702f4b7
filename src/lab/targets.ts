/** Resolves a bind request to targets of the graph. */
import { canBind, type Target } from '../engine/index.ts';
import { type BindRequest, LabError } from './types.ts';

/**
 * Glob match: `*` matches within a segment, `**` (or more) also across the dots between segments. Takes time
 * proportional to the product of the lengths for every glob; a regular expression can take exponential time.
 */
export function matchesGlob(glob: string, id: string): boolean {
  // Lengths of the prefixes of `id` that the parts so far match.
  let prefixLengths = new Set([0]);
  for (const piece of glob.split(/(\*+)/)) {
    const nextLengths = new Set<number>();
    for (const end of prefixLengths) {
      if (!piece.startsWith('*')) {
        if (id.startsWith(piece, end)) nextLengths.add(end + piece.length);
        continue;
      }
      nextLengths.add(end);
      for (
        let at = end;
        at < id.length && (piece.length > 1 || id[at] !== '.') && !nextLengths.has(at + 1);
        at++
      ) {
        nextLengths.add(at + 1);
      }
    }
    prefixLengths = nextLengths;
  }
  return prefixLengths.has(id.length);
}

/**
 * Resolves the globs of a bind request to targets that do not overlap. A glob selects the matching nodes that have
 * the op; if there are none, the matching spans.
 */
export function resolveTargets(request: BindRequest, op: string, targets: readonly Target[]): Target[] {
  const targetsById = new Map<string, Target>();
  const patterns = [
    ...(request.components ?? []).map((glob) => ({ glob, spansOnly: false })),
    ...(request.span === undefined ? [] : [{ glob: request.span, spansOnly: true }]),
  ];
  if (patterns.length === 0) {
    throw new LabError('unknown_component', 'components or span: expected at least one glob, got none.');
  }
  for (const { glob, spansOnly } of patterns) {
    const matched = targets.filter(({ id, isSpan }) => matchesGlob(glob, id) && (isSpan || !spansOnly));
    if (matched.length === 0) {
      const kind = spansOnly ? 'span' : 'component';
      throw new LabError('unknown_component', `No ${kind} matches '${glob}'${compatibleSlots(op, targets)}.`);
    }
    const compatible = matched.filter((target) => canBind(op, target));
    if (compatible.length === 0) {
      const ops = [...new Set(matched.map((target) => target.op))].join(', ');
      throw new LabError(
        'incompatible_component',
        `'${glob}' matches components of op ${ops}, but the kernel is for ${op}${compatibleSlots(op, targets)}.`,
      );
    }
    const nodes = compatible.filter(({ isSpan }) => !isSpan);
    for (const target of nodes.length > 0 ? nodes : compatible) targetsById.set(target.id, target);
  }
  const resolved = [...targetsById.values()];
  const ownerByNode = new Map<string, string>();
  for (const { id, nodes } of resolved) {
    for (const node of nodes) {
      const otherId = ownerByNode.get(node.id);
      if (otherId !== undefined) {
        throw new LabError(
          'incompatible_component',
          `'${otherId}' and '${id}' both contain ${node.id}: bind one of them.`,
        );
      }
      ownerByNode.set(node.id, id);
    }
  }
  return resolved;
}

function compatibleSlots(op: string, targets: readonly Target[]): string {
  const slots = new Set(
    targets
      .filter((target) => canBind(op, target))
      .map(({ id }) => id.replace(/^layers\.\d+\./, 'layers.*.')),
  );
  return slots.size === 0
    ? `; this model has no component of op ${op}`
    : `; ${op} can be bound to ${[...slots].join(', ')}`;
}

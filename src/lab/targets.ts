/** Resolves a bind request to targets of the graph. */
import { fits, type Target } from '../engine/index.ts';
import { type BindRequest, LabError } from './types.ts';

/**
 * Glob match: `*` matches within a segment, `**` (or more) also across the dots between segments. Takes time
 * proportional to the product of the lengths for every glob; a regular expression can take exponential time.
 */
export function matchesGlob(glob: string, id: string): boolean {
  // Lengths of the prefixes of `id` that the parts so far match.
  let ends = new Set([0]);
  for (const part of glob.split(/(\*+)/)) {
    const next = new Set<number>();
    for (const end of ends) {
      if (!part.startsWith('*')) {
        if (id.startsWith(part, end)) next.add(end + part.length);
        continue;
      }
      next.add(end);
      for (let at = end; at < id.length && (part.length > 1 || id[at] !== '.') && !next.has(at + 1); at++) {
        next.add(at + 1);
      }
    }
    ends = next;
  }
  return ends.has(id.length);
}

/**
 * Resolves the globs of a bind request to targets that do not overlap. A glob selects the matching nodes that have
 * the op; if there are none, the matching spans.
 */
export function targetsFor(request: BindRequest, op: string, targets: readonly Target[]): Target[] {
  const chosen = new Map<string, Target>();
  const wanted = [
    ...(request.components ?? []).map((glob) => ({ glob, spansOnly: false })),
    ...(request.span === undefined ? [] : [{ glob: request.span, spansOnly: true }]),
  ];
  if (wanted.length === 0) {
    throw new LabError('unknown_component', 'components or span: expected at least one glob, got none.');
  }
  for (const { glob, spansOnly } of wanted) {
    const matched = targets.filter(({ id, isSpan }) => matchesGlob(glob, id) && (isSpan || !spansOnly));
    if (matched.length === 0) {
      const kind = spansOnly ? 'span' : 'component';
      throw new LabError('unknown_component', `No ${kind} matches '${glob}'${examples(op, targets)}.`);
    }
    const fitting = matched.filter((target) => fits(op, target));
    if (fitting.length === 0) {
      const ops = [...new Set(matched.map((target) => target.op))].join(', ');
      throw new LabError(
        'incompatible_component',
        `'${glob}' matches components of op ${ops}, but the kernel is for ${op}${examples(op, targets)}.`,
      );
    }
    const nodes = fitting.filter(({ isSpan }) => !isSpan);
    for (const target of nodes.length > 0 ? nodes : fitting) chosen.set(target.id, target);
  }
  const all = [...chosen.values()];
  const taken = new Map<string, string>();
  for (const { id, nodes } of all) {
    for (const node of nodes) {
      const other = taken.get(node.id);
      if (other !== undefined) {
        throw new LabError(
          'incompatible_component',
          `'${other}' and '${id}' both contain ${node.id}: bind one of them.`,
        );
      }
      taken.set(node.id, id);
    }
  }
  return all;
}

function examples(op: string, targets: readonly Target[]): string {
  const slots = new Set(
    targets.filter((target) => fits(op, target)).map(({ id }) => id.replace(/^layers\.\d+\./, 'layers.*.')),
  );
  return slots.size === 0
    ? `; this model has no component of op ${op}`
    : `; ${op} can be bound to ${[...slots].join(', ')}`;
}

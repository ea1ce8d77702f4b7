/** Which targets of the graph a request to bind means. */
import { fits, type Target } from '../engine/index.ts';
import { type BindRequest, LabError } from './types.ts';

/**
 * `*` stands for anything within a segment, `**` (or more) also over the dots between segments. The time is that of the
 * two lengths multiplied, whatever the glob: a regular expression would take for ever over a row of stars.
 */
export function matchesGlob(glob: string, id: string): boolean {
  // Ends of the beginnings of `id` that the parts so far match.
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
 * Targets that do not overlap. A glob over components means nodes where the op is one of nodes and the glob matches
 * any, else spans.
 */
export function targetsFor(request: BindRequest, op: string, targets: readonly Target[]): Target[] {
  const chosen = new Map<string, Target>();
  const wanted = [
    ...(request.components ?? []).map((glob) => ({ glob, spansOnly: false })),
    ...(request.span === undefined ? [] : [{ glob: request.span, spansOnly: true }]),
  ];
  if (wanted.length === 0) {
    throw new LabError(
      'unknown_component',
      'Nothing to bind to: give components (globs over their ids) or a span.',
    );
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
        `'${glob}' matches components of op ${ops}, and the kernel is for ${op}${examples(op, targets)}.`,
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
  return slots.size === 0 ? `; this model has nothing for ${op}` : `; ${op} fits ${[...slots].join(', ')}`;
}

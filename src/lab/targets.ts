/** Which targets of the graph a request to bind means. */
import { fits, type Target } from '../engine/index.ts';
import { type BindRequest, LabError } from './types.ts';

/** `*` stands for anything within a segment, `**` also over the dots between segments. */
export function globPattern(glob: string): RegExp {
  const text = glob
    .split(/(\*\*|\*)/)
    .map((part) =>
      part === '**' ? '.*' : part === '*' ? '[^.]*' : part.replace(/[\\^$.|?+()[\]{}]/g, '\\$&'),
    )
    .join('');
  return new RegExp(`^${text}$`);
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
    const pattern = globPattern(glob);
    const matched = targets.filter(({ id, isSpan }) => pattern.test(id) && (isSpan || !spansOnly));
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

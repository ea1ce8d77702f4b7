import type { DraftStep } from './draft.ts';
import type { Findings } from './findings.ts';
import { suggestName } from './near-miss.ts';

/** Checks `needs`. @returns for each step the ids of the steps that have ended before it: its transitive needs */
export function checkNeeds(steps: readonly DraftStep[], findings: Findings): Map<DraftStep, Set<string>> {
  const ids = checkStepIds(steps, findings);
  for (const { index, id, needs = [] } of steps) {
    for (const [at, need] of needs.entries()) {
      const path = ['steps', index, 'needs', at];
      if (!ids.has(need))
        findings.error(
          'unknown_step',
          path,
          `there is no step '${need.slice(0, 80)}'${suggestName(need, [...ids.keys()])}`,
        );
      else if (need === id) findings.error('needs_cycle', path, `step '${id}' needs itself`);
    }
  }
  const endedBefore = new Map(steps.map((step) => [step, transitiveNeeds(step, ids)]));
  for (const step of steps) {
    const { id, index, needs = [] } = step;
    if (id === undefined || needs.includes(id) || !endedBefore.get(step)?.has(id)) continue;
    const via = needs.filter((need) => need === id || endedBefore.get(ids.get(need) ?? step)?.has(id));
    const message = `step '${id}' needs ${via.map((one) => `'${one}'`).join(', ')}, which in turn needs '${id}': break the cycle`;
    findings.error('needs_cycle', ['steps', index, 'needs'], message);
  }
  return endedBefore;
}

function checkStepIds(steps: readonly DraftStep[], findings: Findings): Map<string, DraftStep> {
  const ids = new Map<string, DraftStep>();
  for (const step of steps) {
    const { id, index } = step;
    if (id === undefined) continue;
    const first = ids.get(id);
    if (first === undefined) ids.set(id, step);
    else
      findings.error(
        'duplicate_step',
        ['steps', index, 'id'],
        `step ${first.index + 1} has the id '${id}' already`,
      );
  }
  return ids;
}

function transitiveNeeds(step: DraftStep, ids: ReadonlyMap<string, DraftStep>): Set<string> {
  const needed = new Set<string>();
  const queue = [...(step.needs ?? [])];
  for (let need = queue.pop(); need !== undefined; need = queue.pop()) {
    if (needed.has(need) || !ids.has(need)) continue;
    needed.add(need);
    for (const further of ids.get(need)?.needs ?? []) queue.push(further);
  }
  return needed;
}

/** Sorts steps topologically, and otherwise in the order of the source. There must be no cycles. */
export function sortByNeeds<Step extends { readonly id: string; readonly needs: readonly string[] }>(
  steps: readonly Step[],
): Step[] {
  const remaining = [...steps];
  const done = new Set<string>();
  const order: Step[] = [];
  while (remaining.length > 0) {
    const at = remaining.findIndex(({ needs }) => needs.every((need) => done.has(need)));
    const [next] = remaining.splice(Math.max(at, 0), 1);
    if (next === undefined) break;
    done.add(next.id);
    order.push(next);
  }
  return order;
}

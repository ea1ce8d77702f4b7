import { isRecord } from '../../../util/json.ts';
import type { Rights } from './consent.ts';
import { type Draft, entries } from './draft.ts';
import type { Ensemble } from './ensemble.ts';

/**
 * Input of the consent summary. Malformed parts are included as far as they are readable, so that no right is omitted.
 */
interface StatedRights extends Pick<Ensemble, 'entry' | 'workspace'> {
  /** Inline agents that steps use, or all inline agents when the steps are unreadable. */
  readonly agents: readonly Rights[];
}

export function statedRights({ document, steps }: Draft): StatedRights {
  const { agents, entry, workspace, steps: list } = document.value;
  const isUnclear =
    !Array.isArray(list) ||
    list.length > steps.length ||
    steps.some((step) => step.has('agent') && step.agent === undefined);
  const used = entries(agents).filter(([name]) => isUnclear || steps.some((step) => step.agent === name));
  const input = textOf(workspace, 'input');
  const cron = textOf(entry, 'kind') === 'schedule' ? textOf(entry, 'cron') : undefined;
  return {
    agents: used.map(([, agent]) => rightsOf(agent)),
    ...(cron === undefined
      ? {}
      : { entry: { kind: 'schedule', cron, tz: textOf(entry, 'tz') ?? 'UTC' } as const }),
    ...(input === undefined ? {} : { workspace: { input } }),
  };
}

function rightsOf(agent: unknown): Rights {
  const table = isRecord(agent) ? agent : {};
  const stated = isRecord(table['grants']) ? table['grants'] : {};
  /** Accepts one text in place of a list. */
  const texts = (value: unknown) =>
    (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string');
  return {
    model: textOf(table, 'model') ?? 'resident',
    grants: {
      tools: texts(stated['tools']),
      read: texts(stated['read']),
      write: texts(stated['write']),
      network: texts(stated['network']),
      auto_approve: texts(stated['auto_approve']),
    },
  };
}

function textOf(table: unknown, name: string): string | undefined {
  const value = isRecord(table) ? table[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}

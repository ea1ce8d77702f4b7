import { isRecord } from '../../../util/json.ts';
import type { AgentRights } from './consent.ts';
import { type Draft, tableEntries } from './draft.ts';
import type { Ensemble } from './ensemble.ts';

/**
 * Input of the consent summary. Malformed parts are included as far as they are readable, so that no right is omitted.
 */
interface StatedRights extends Pick<Ensemble, 'entry' | 'workspace'> {
  /** Inline agents that steps use, or all inline agents when the steps are unreadable. */
  readonly agents: readonly AgentRights[];
}

export function readStatedRights({ document, steps }: Draft): StatedRights {
  const { agents, entry, workspace, steps: list } = document.value;
  const isUnreadable =
    !Array.isArray(list) ||
    list.length > steps.length ||
    steps.some((step) => step.has('agent') && step.agent === undefined);
  const usedAgents = tableEntries(agents).filter(
    ([name]) => isUnreadable || steps.some((step) => step.agent === name),
  );
  const input = readText(workspace, 'input');
  const cron = readText(entry, 'kind') === 'schedule' ? readText(entry, 'cron') : undefined;
  return {
    agents: [
      ...usedAgents.map(([, agent]) => readRights(agent)),
      ...steps.flatMap(({ model }) => (model === undefined ? [] : [{ model, grants: noGrants }])),
    ],
    ...(cron === undefined
      ? {}
      : { entry: { kind: 'schedule', cron, tz: readText(entry, 'tz') ?? 'UTC' } as const }),
    ...(input === undefined ? {} : { workspace: { input } }),
  };
}

const noGrants = { tools: [], read: [], write: [], network: [], auto_approve: [] };

function readRights(agent: unknown): AgentRights {
  const table = isRecord(agent) ? agent : {};
  const statedGrants = isRecord(table['grants']) ? table['grants'] : {};
  /** Accepts one text in place of a list. */
  const toTexts = (value: unknown) =>
    (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string');
  return {
    model: readText(table, 'model') ?? 'resident',
    grants: {
      tools: toTexts(statedGrants['tools']),
      read: toTexts(statedGrants['read']),
      write: toTexts(statedGrants['write']),
      network: toTexts(statedGrants['network']),
      auto_approve: toTexts(statedGrants['auto_approve']),
    },
  };
}

function readText(table: unknown, name: string): string | undefined {
  const value = isRecord(table) ? table[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}

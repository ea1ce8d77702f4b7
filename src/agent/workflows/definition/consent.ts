import { globMatches } from '../../agents/name-glob.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { Consent } from '../../shapes/lint-report.ts';
import type { ToolCatalogEntry } from '../../shapes/tool.ts';
import type { Ensemble } from './ensemble.ts';
import { cronFault, nextFiring, zoneFault } from './schedule.ts';

export type KnownTool = Pick<ToolCatalogEntry, 'name' | 'destructive'>;
/** The part of an agent that a person consents to. */
export type Rights = Pick<AgentSpec, 'grants' | 'model'>;

/**
 * Summarizes the rights of a workflow's agents.
 * @param agents the agents that its steps use
 */
export function consentOf(
  { entry, workspace }: Pick<Ensemble, 'entry' | 'workspace'>,
  agents: readonly Rights[],
  tools: readonly KnownTool[],
  now: Date,
): Consent {
  const all = (pick: (agent: Rights) => readonly string[]) => [...new Set(agents.flatMap(pick))].toSorted();
  const mayChange = (agent: Rights) =>
    tools.filter(
      ({ name, destructive }) => destructive && agent.grants.tools.some((glob) => globMatches(glob, name)),
    );
  const isAutomatic = (name: string) =>
    agents.some(
      (agent) =>
        mayChange(agent).some((tool) => tool.name === name) &&
        agent.grants.auto_approve.some((glob) => globMatches(glob, name)),
    );
  const changing = [
    ...new Set(agents.flatMap((agent) => mayChange(agent).map(({ name }) => name))),
  ].toSorted();
  return {
    tools: all(({ grants }) => grants.tools),
    read: all(({ grants }) => grants.read),
    write: all(({ grants }) => grants.write),
    network: all(({ grants }) => grants.network),
    models: all(({ model }) => [model]),
    ...(workspace ? { workspace: workspace.input } : {}),
    schedule: entry?.kind === 'schedule' ? scheduleOf(entry.cron, entry.tz, now) : null,
    destructive: changing.map((tool) => ({ tool, approval: isAutomatic(tool) ? 'automatic' : 'person' })),
  };
}

function scheduleOf(cron: string, tz: string, now: Date): Consent['schedule'] {
  const isFaulty = cronFault(cron) !== undefined || zoneFault(tz) !== undefined;
  const next = isFaulty ? undefined : nextFiring(cron, tz, now)?.toISOString();
  return { cron, tz, ...(next === undefined ? {} : { next }) };
}

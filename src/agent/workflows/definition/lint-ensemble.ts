import { isRecord } from '../../../util/json.ts';
import { globMatches } from '../../agents/name-glob.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { Consent, LintReport } from '../../shapes/lint-report.ts';
import { summarizeConsent, type KnownTool } from './consent.ts';
import type { Ensemble } from './ensemble.ts';
import type { Findings } from './findings.ts';
import { suggestName } from './near-miss.ts';
import { checkNestedWorkflows } from './nested-workflows.ts';
import { parseWithFindings } from './parse-ensemble.ts';
import { readStatedRights } from './stated-rights.ts';

/** Context that a source is linted against. */
export interface LintContext {
  readonly tools: readonly KnownTool[];
  /** Looks up a stored agent, or `default`. */
  readonly agent: (name: string) => Promise<AgentSpec | undefined>;
  /** Looks up the source of a stored or built-in workflow. */
  readonly workflow: (name: string) => Promise<string | undefined>;
  readonly now: Date;
  /** Name that the source must have. */
  readonly name?: string;
}

export interface LintResult {
  readonly report: LintReport;
  /** Present when the report is ok. */
  readonly ensemble?: Ensemble;
  /** Present when the source is valid TOML, even with other errors. */
  readonly consent?: Consent;
}

/** Lints a source, and reports all findings at once. Throws only errors of the context's functions. */
export async function lintEnsemble(
  source: string,
  { tools, agent, workflow, now, ...required }: LintContext,
): Promise<LintResult> {
  const { findings, draft, isReadable, ensemble } = parseWithFindings(source);
  for (const [name, inlineAgent] of draft.agents)
    if (inlineAgent !== undefined) checkTools({ ...inlineAgent, name }, tools, findings);
  const storedAgents = new Map<string, AgentSpec>();
  for (const { agent: name, index } of draft.steps) {
    if (name === undefined || draft.agents.has(name) || storedAgents.has(name)) continue;
    const stored = await agent(name);
    if (stored !== undefined) storedAgents.set(name, stored);
    else
      findings.error(
        'unknown_agent',
        ['steps', index, 'agent'],
        `there is no [agents.${name}], and no stored agent of that name${suggestName(name, [...draft.agents.keys()])}`,
      );
  }
  const name = readName(draft.document.value['ensemble']);
  if (required.name !== undefined && name !== undefined && name !== required.name) {
    const message = `the workflow is called '${name}' here and '${required.name.slice(0, 200)}' in the path: make them the same`;
    findings.error('name_differs', ['ensemble', 'name'], message);
  }
  const nested = await checkNestedWorkflows(draft, name, { workflow, agent }, findings);
  const { errors, warnings, isClean } = findings;
  const report = { ok: isClean, ...(name === undefined ? {} : { name }), errors, warnings };
  if (!isReadable) return { report };
  const statedRights = readStatedRights(draft);
  const consent = summarizeConsent(
    statedRights,
    [...statedRights.agents, ...storedAgents.values(), ...nested.agents],
    { tools, now, workflows: nested.names },
  );
  return { report, consent, ...(isClean && ensemble !== undefined ? { ensemble } : {}) };
}

const readName = (header: unknown) =>
  isRecord(header) && typeof header['name'] === 'string' ? header['name'].slice(0, 200) : undefined;

/** An unknown tool is only a warning, because tools come and go with their MCP servers. */
function checkTools(agent: AgentSpec, tools: readonly KnownTool[], findings: Findings): void {
  const names = tools.map(({ name }) => name);
  const { tools: granted, auto_approve } = agent.grants;
  const path = ['agents', agent.name, 'grants'];
  for (const [kind, globs] of Object.entries({ tools: granted, auto_approve }))
    for (const [index, glob] of globs.entries())
      if (!names.some((name) => globMatches(glob, name)))
        findings.warn(
          'unknown_tool',
          [...path, kind, index],
          `no tool is named '${glob.slice(0, 80)}'${suggestName(glob, names)}`,
        );
  for (const [index, glob] of auto_approve.entries()) {
    const autoApplied = tools.filter(
      ({ name, destructive }) =>
        destructive && globMatches(glob, name) && granted.some((one) => globMatches(one, name)),
    );
    if (autoApplied.length > 0)
      findings.warn(
        'unasked_changes',
        [...path, 'auto_approve', index],
        `changes of ${autoApplied.map(({ name }) => name).join(', ')} are applied without approval`,
      );
  }
}

import { AgentError } from '../../errors.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { AgentRights } from './consent.ts';
import type { Draft } from './draft.ts';
import type { Ensemble } from './ensemble.ts';
import type { Findings } from './findings.ts';
import { parseEnsemble, parseWithFindings } from './parse-ensemble.ts';
import { readStatedRights } from './stated-rights.ts';

/** Workflows that one workflow runs, all levels together, and levels. */
const maxNested = 50;
const maxDepth = 8;

/** Names of the workflows that steps run. */
const nestedNames = (steps: readonly { readonly workflow?: string | undefined }[]): string[] => [
  ...new Set(steps.flatMap(({ workflow }) => workflow ?? [])),
];

interface LookUp {
  /** Source of a stored or built-in workflow. */
  readonly workflow: (name: string) => Promise<string | undefined>;
  /** A stored agent, or `default`. */
  readonly agent: (name: string) => Promise<AgentSpec | undefined>;
}

/**
 * Checks the workflows that steps run, and collects the rights of their agents.
 * @param ownName of the workflow that is checked
 */
export async function checkNestedWorkflows(
  draft: Draft,
  ownName: string | undefined,
  lookUp: LookUp,
  findings: Findings,
): Promise<{ readonly names: readonly string[]; readonly agents: readonly AgentRights[] }> {
  const names = new Set<string>();
  const agents: AgentRights[] = [];
  for (const { workflow: first, index } of draft.steps) {
    if (first === undefined) continue;
    const path = ['steps', index, 'workflow'];
    const queue = [first];
    for (let name = queue.shift(); name !== undefined && names.size < maxNested; name = queue.shift()) {
      if (name === ownName) {
        findings.error('workflow_cycle', path, `'${first}' runs this workflow again: break the cycle`);
        continue;
      }
      if (names.has(name)) continue;
      const source = await lookUp.workflow(name);
      if (source === undefined) {
        const message = `there is no workflow '${name}': a run is refused until there is one and it is enabled`;
        findings.warn('unknown_workflow', path, message);
        continue;
      }
      names.add(name);
      const nested = parseWithFindings(source).draft;
      agents.push(...readStatedRights(nested).agents);
      for (const { agent } of nested.steps) {
        const stored =
          agent === undefined || nested.agents.has(agent) ? undefined : await lookUp.agent(agent);
        if (stored) agents.push(stored);
      }
      queue.push(...nestedNames(nested.steps));
    }
  }
  return { names: [...names].toSorted(), agents };
}

/**
 * The sources of all workflows that a workflow runs, by name.
 * @param find undefined for a workflow that does not exist or may not be run
 * @throws AgentError conflict `invalid_workflow`
 */
export async function collectNestedSources(
  root: Ensemble,
  find: (name: string) => Promise<string | undefined>,
): Promise<Record<string, string>> {
  const sources: Record<string, string> = {};
  const visit = async (ensemble: Ensemble, path: readonly string[]): Promise<void> => {
    for (const name of nestedNames(ensemble.steps)) {
      const chain = [...path, name].map((one) => `'${one}'`).join(' runs ');
      if (path.includes(name)) throw notRunnable(`${chain}, which never ends`);
      if (path.length >= maxDepth) throw notRunnable(`${chain}: at most ${maxDepth} levels`);
      const source = sources[name] ?? (await find(name));
      if (source === undefined) throw notRunnable(`${chain}, which does not exist or is not enabled`);
      sources[name] = source;
      if (Object.keys(sources).length > maxNested) throw notRunnable(`at most ${maxNested} workflows`);
      await visit(parseEnsemble(source), [...path, name]);
    }
  };
  await visit(root, [root.name]);
  return sources;
}

const notRunnable = (reason: string): AgentError =>
  new AgentError('conflict', 'invalid_workflow', `The workflow cannot be run: ${reason}.`);

import type { Fault } from '../../errors.ts';
import { AgentError } from '../../errors.ts';
import { checkAgents } from './check-agents.ts';
import { checkGates } from './check-gates.ts';
import { checkInputs } from './check-inputs.ts';
import { checkReferences } from './check-references.ts';
import { checkNames, checkUnknownKeys, reportIssues } from './check-shape.ts';
import { type Draft, readDraft } from './draft.ts';
import { type Ensemble, ensembleFile } from './ensemble.ts';
import { Findings } from './findings.ts';
import { checkNeeds, sortByNeeds } from './step-order.ts';
import { TomlDocument } from './toml-document.ts';

export const sourceLimitBytes = 256 * 1024;

interface ParseResult {
  readonly findings: Findings;
  readonly draft: Draft;
  /** The source is valid TOML and not too large. */
  readonly isReadable: boolean;
  /** Present when there are no errors. */
  readonly ensemble?: Ensemble;
}

/** Parses a source, and reports everything that is wrong with it independent of the host. Never throws. */
export function parseWithFindings(source: string): ParseResult {
  const size = Buffer.byteLength(source);
  const document = new TomlDocument(size > sourceLimitBytes ? '' : source);
  const findings = new Findings(document);
  const draft = readDraft(document);
  const isReadable = document.isParsed && size <= sourceLimitBytes;
  if (size > sourceLimitBytes)
    findings.error('too_large', [], `at most ${sourceLimitBytes} bytes, this is ${size}`);
  // Without a document, every member would be reported as missing.
  if (!findings.isClean && Object.keys(document.value).length === 0) return { findings, draft, isReadable };
  const parsed = ensembleFile.safeParse(document.value);
  reportIssues(document.value, parsed.error?.issues ?? [], findings);
  checkNames(draft, findings);
  checkUnknownKeys(draft, findings);
  checkInputs(draft, findings);
  checkAgents(draft, findings);
  const endedBefore = checkNeeds(draft.steps, findings);
  checkGates(draft, findings);
  checkReferences(draft, endedBefore, findings);
  if (!parsed.success || !findings.isClean) return { findings, draft, isReadable };
  const { ensemble, agents, steps, ...rest } = parsed.data;
  const { name, version, description, origin, parallel } = ensemble;
  const namedAgents = Object.entries(agents).map(([key, agent]) => [key, { ...agent, name: key }]);
  return {
    findings,
    draft,
    isReadable,
    ensemble: {
      ...rest,
      name,
      parallel,
      ...(version === undefined ? {} : { version }),
      ...(description === undefined ? {} : { description }),
      ...(origin === undefined ? {} : { origin }),
      agents: Object.fromEntries(namedAgents),
      steps: sortByNeeds(steps),
    },
  };
}

/**
 * Parses a source that was valid when it was stored. It may come from an older host.
 * @throws AgentError `invalid_workflow` with all errors
 */
export function parseEnsemble(source: string): Ensemble {
  const { ensemble, findings } = parseWithFindings(source);
  if (ensemble !== undefined) return ensemble;
  const faults = findings.errors.map(
    ({ path, message, line, column }): Fault => ({
      path,
      message: `line ${line}, column ${column}: ${message}`,
    }),
  );
  const message = `The workflow cannot be read: ${faults[0]?.message ?? ''}.`;
  throw new AgentError('invalid', 'invalid_workflow', message, { faults });
}

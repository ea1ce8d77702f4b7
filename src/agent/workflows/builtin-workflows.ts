import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuiltinWorkflow } from '../shapes/ensemble.ts';
import { summarizeConsent, type KnownTool } from './definition/consent.ts';
import type { Ensemble } from './definition/ensemble.ts';
import { parseEnsemble } from './definition/parse-ensemble.ts';
import { computeSourceDigest } from './source-digest.ts';

interface BuiltinSource {
  readonly ensemble: Ensemble & { readonly version: string; readonly description: string };
  readonly source: string;
  readonly digest: string;
  readonly origin: string;
}

/** The read-only workflows that are shipped with the host. */
export class BuiltinWorkflows {
  readonly #byName: ReadonlyMap<string, BuiltinSource>;

  /** @throws Error when a source does not lint or lacks listed metadata, which is a bug */
  constructor(sources: readonly string[]) {
    const builtinList = sources
      .map(parseBuiltin)
      .toSorted((a, b) => (a.ensemble.name < b.ensemble.name ? -1 : 1));
    this.#byName = new Map(builtinList.map((one) => [one.ensemble.name, one]));
  }

  /** @param folder contains one `.toml` file per workflow */
  static async open(folder: string): Promise<BuiltinWorkflows> {
    const files = (await readdir(folder)).filter((file) => file.endsWith('.toml'));
    return new BuiltinWorkflows(await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8'))));
  }

  get(name: string): BuiltinSource | undefined {
    return this.#byName.get(name);
  }

  list(tools: readonly KnownTool[], isEnabled: (name: string) => boolean, now: Date): BuiltinWorkflow[] {
    return [...this.#byName.values()].map(({ ensemble, source, digest, origin }) => {
      const { name, version, description, inputs, steps, agents } = ensemble;
      const consent = summarizeConsent(ensemble, Object.values(agents), { tools, now, workflows: [] });
      return {
        name,
        version,
        description,
        origin,
        source,
        digest,
        enabled: isEnabled(name),
        inputs,
        steps: steps.map(({ id, needs, agent, when, gate }) => ({
          id,
          needs,
          ...(agent === undefined ? {} : { agent }),
          ...(when === undefined ? {} : { when }),
          ...(gate === undefined ? {} : { gate: gate.kind }),
        })),
        schedule: consent.schedule,
        consent,
      };
    });
  }
}

function parseBuiltin(source: string): BuiltinSource {
  const ensemble = parseEnsemble(source);
  const { name, version, description, steps, agents } = ensemble;
  if (version === undefined || description === undefined)
    throw new Error(`the built-in workflow '${name}' lacks its version or description`);
  const storedAgentStep = steps.find(({ agent }) => agent !== undefined && !Object.hasOwn(agents, agent));
  if (storedAgentStep)
    throw new Error(`the built-in workflow '${name}' uses the stored agent '${storedAgentStep.agent}'`);
  if (steps.some(({ workflow, model }) => workflow !== undefined || model !== undefined))
    throw new Error(`the built-in workflow '${name}' depends on another workflow or on a model`);
  const origin = `builtin:${name}@${version}`;
  return {
    ensemble: { ...ensemble, version, description },
    source,
    digest: computeSourceDigest(source),
    origin,
  };
}

/** Saved configs of a resident model: which kernels run which components, signed, with evidence. */
import { contracts } from '../../../kernels/contracts.ts';
import type { ResidentEngine } from '../../engine/index.ts';
import { canonicalJson } from '../../signing/canonical-json.ts';
import { targetsByKernel, type BoundKernel } from '../bindings.ts';
import { labKey } from '../lab-key.ts';
import { staticFindings } from '../stages/static-checks.ts';
import {
  type BenchEvidence,
  type ConfigEnvelope,
  type Fingerprint,
  type ImportConfigRequest,
  type ImportedConfig,
  LabError,
} from '../types.ts';
import { buildEnvelope } from './envelope.ts';
import { describeMachine } from './machine.ts';
import { ConfigStore } from './store.ts';
import { validateConfig, type Validation } from './validate.ts';

interface LabConfigsOptions {
  readonly engine: ResidentEngine;
  readonly dataDir: string;
  /** Version of the host. */
  readonly version: string;
  readonly trustedKeys: readonly string[];
  readonly allowUnverified: boolean;
}

export class LabConfigs {
  readonly #options: LabConfigsOptions;
  readonly #fingerprint: () => Promise<Fingerprint>;
  readonly #store: ConfigStore;

  constructor(options: LabConfigsOptions, fingerprint: () => Promise<Fingerprint>) {
    this.#options = options;
    this.#fingerprint = fingerprint;
    this.#store = new ConfigStore(options.dataDir);
  }

  names(): Promise<readonly string[]> {
    return this.#store.names();
  }

  read(name: string): Promise<string> {
    return this.#store.read(name);
  }

  delete(name: string): Promise<void> {
    return this.#store.delete(name);
  }

  /**
   * Signs and saves what is bound.
   * @param bench measurement of these bindings
   * @throws LabError `nothing_bound`
   */
  async save(
    name: string,
    bound: readonly BoundKernel[],
    bench: BenchEvidence | undefined,
  ): Promise<ConfigEnvelope> {
    const { engine, dataDir } = this.#options;
    if (bound.length === 0) {
      throw new LabError('nothing_bound', 'No lab kernel is bound, so there is nothing to save.');
    }
    const byKernel = targetsByKernel(bound);
    const registered = [...new Map(bound.map((one) => [one.kernel.name, one.registered])).values()];
    const envelope = buildEnvelope(
      {
        name,
        model: { digest: await engine.digest, architecture: engine.model.architecture },
        bindings: [...byKernel].map(([kernel, components]) => ({ kernel, components })),
        kernels: registered.map(({ registration }) => registration),
        evidence: Object.fromEntries(
          registered.map(({ registration, report }) => [registration.name, report]),
        ),
        bench,
        machine: describeMachine(this.#options.version),
        fingerprint: await this.#fingerprint(),
        createdAt: new Date(),
      },
      await labKey(dataDir),
    );
    await this.#store.save(name, canonicalJson(envelope));
    return envelope;
  }

  /**
   * Saves a config of another host. Its signature must be valid; whether its key is trusted matters when it is bound.
   * @throws LabError `config_exists`, `invalid_config`
   */
  async import({ envelope, name, replace = false }: ImportConfigRequest): Promise<ImportedConfig> {
    const { report } = await this.validate({ envelope });
    const [signature] = report.stages;
    const errors = (signature?.findings ?? []).filter(
      ({ severity, code }) => severity === 'error' && code !== 'untrusted_key',
    );
    if (errors.length > 0) {
      const reasons = errors.map(({ message }) => message).join('; ');
      throw new LabError('invalid_config', `The config cannot be imported: ${reasons}.`);
    }
    const config = envelope as ConfigEnvelope;
    const saved = name ?? config.name;
    if (!replace && (await this.#store.names()).includes(saved))
      throw new LabError(
        'config_exists',
        `There is a config '${saved}': import it under another name, or replace it.`,
      );
    await this.#store.save(saved, canonicalJson(config));
    return { name: saved, saved: true, report };
  }

  /**
   * A saved config that can be bound here.
   * @throws LabError `unknown_config`, `not_bindable`
   */
  async requireValid(name: string): Promise<ConfigEnvelope> {
    await this.#store.read(name); // throws `unknown_config` with the list of saved configs
    const { report, envelope } = await this.validate({ path: `${name}.json` });
    if (envelope) return envelope;
    const errors = report.stages.flatMap(({ findings }) =>
      findings.filter(({ severity }) => severity === 'error'),
    );
    throw new LabError(
      'not_bindable',
      `The config '${name}' is not valid: ${errors.map(({ message }) => message).join('; ')}`,
    );
  }

  async validate(request: { path?: string | undefined; envelope?: unknown }): Promise<Validation> {
    const { engine, dataDir, trustedKeys, allowUnverified } = this.#options;
    const { features } = engine.adapter;
    const { limits } = engine.runner.gpu.device;
    return await validateConfig(request, this.#store.folder, {
      ownKey: await labKey(dataDir),
      trustedKeys,
      modelDigest: await engine.digest,
      knownOps: [...contracts.keys()],
      features,
      allowUnverified,
      staticFindings: (kernel) => staticFindings(kernel, { limits, features }),
    });
  }
}

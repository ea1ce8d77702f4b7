/** Compiles a registration: as written, and in a build that checks buffer indices. */
import type { Contract } from '../../../kernels/contracts.ts';
import { parseStage } from '../stages/parse.ts';
import { makePipeline } from '../stages/pipeline.ts';
import type { Finding, KernelRegistration } from '../types.ts';
import { instrument, type Instrumented } from '../wgsl/instrument.ts';
import type { Reflection } from '../wgsl/reflect.ts';
import type { Candidate } from './run-case.ts';

interface Parts {
  readonly registration: KernelRegistration;
  readonly contract: Contract;
  readonly reflection: Reflection;
  readonly module: GPUShaderModule;
}

type Overrides = Readonly<Record<string, number>>;

interface Checks {
  readonly module?: GPUShaderModule | undefined;
  readonly sites: Instrumented['sites'];
  readonly findings: readonly Finding[];
}

export class Builder {
  readonly #device: GPUDevice;
  readonly #parts: Parts;
  #checks: Promise<Checks> | undefined;

  constructor(device: GPUDevice, parts: Parts) {
    this.#device = device;
    this.#parts = parts;
  }

  /** @param overrides override values of this build; they win over those of the registration */
  async build(overrides: Overrides): Promise<{ candidate?: Candidate; findings: readonly Finding[] }> {
    const { contract, module } = this.#parts;
    const made = await makePipeline(this.#device, { ...this.#request(overrides), module });
    return 'findings' in made ? made : { candidate: { contract, ...made }, findings: [] };
  }

  /** Adds a build that counts out-of-bounds accesses. Returns the candidate unchanged when no access needs a check. */
  async withChecks(
    candidate: Candidate,
    overrides: Overrides,
  ): Promise<{ candidate: Candidate; findings: readonly Finding[] }> {
    this.#checks ??= this.#instrument();
    const { module, sites, findings } = await this.#checks;
    if (sites.length === 0) return { candidate, findings: [] };
    if (!module) return { candidate, findings: unchecked(findings) };
    const countsLayout = this.#device.createBindGroupLayout({
      label: 'lab.counts',
      entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'storage' } }],
    });
    const made = await makePipeline(this.#device, {
      ...this.#request(overrides),
      module,
      extraGroups: [countsLayout],
    });
    if ('findings' in made) return { candidate, findings: unchecked(made.findings) };
    return { candidate: { ...candidate, checked: { ...made, countsLayout, sites } }, findings: [] };
  }

  #request(overrides: Overrides) {
    const { registration, contract } = this.#parts;
    return {
      contract,
      entryPoint: registration.entry_point ?? 'main',
      constants: { ...registration.overrides, ...overrides },
      label: registration.name,
      source: registration.source,
    };
  }

  async #instrument(): Promise<Checks> {
    const { registration, reflection } = this.#parts;
    const { source, sites } = instrument(registration.source, reflection);
    if (sites.length === 0) return { sites, findings: [] };
    const { module, findings } = await parseStage(this.#device, source);
    return { module, sites, findings };
  }
}

/** Reported when the checked build fails, for example because one more buffer exceeds the limit of the adapter. */
const unchecked = (reasons: readonly Finding[]): Finding[] => [
  {
    code: 'bounds_unchecked',
    severity: 'warning',
    message: `out-of-bounds accesses are not checked: ${reasons.find(({ severity }) => severity === 'error')?.message}`,
  },
];

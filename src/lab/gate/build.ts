/** Compiles a registration: as written, and in a build that checks buffer indices. */
import type { Contract } from '../../../kernels/contracts.ts';
import { parseStage } from '../stages/parse.ts';
import { compilePipeline } from '../stages/pipeline.ts';
import type { Finding, KernelRegistration } from '../types.ts';
import { instrument, type InstrumentedSource } from '../wgsl/instrument.ts';
import type { Reflection } from '../wgsl/reflect.ts';
import type { Candidate } from './run-case.ts';

interface BuildInput {
  readonly registration: KernelRegistration;
  readonly contract: Contract;
  readonly reflection: Reflection;
  readonly module: GPUShaderModule;
}

type Overrides = Readonly<Record<string, number>>;

interface CheckedModule {
  readonly module?: GPUShaderModule | undefined;
  readonly sites: InstrumentedSource['sites'];
  readonly findings: readonly Finding[];
}

export class CandidateBuilder {
  readonly #device: GPUDevice;
  readonly #input: BuildInput;
  #checkedModule: Promise<CheckedModule> | undefined;

  constructor(device: GPUDevice, input: BuildInput) {
    this.#device = device;
    this.#input = input;
  }

  /** @param overrides override values of this build; they win over those of the registration */
  async build(overrides: Overrides): Promise<{ candidate?: Candidate; findings: readonly Finding[] }> {
    const { contract, module } = this.#input;
    const result = await compilePipeline(this.#device, { ...this.#pipelineRequest(overrides), module });
    return 'findings' in result ? result : { candidate: { contract, ...result }, findings: [] };
  }

  /** Adds a build that counts out-of-bounds accesses. Returns the candidate unchanged when no access needs a check. */
  async buildWithBoundsChecks(
    candidate: Candidate,
    overrides: Overrides,
  ): Promise<{ candidate: Candidate; findings: readonly Finding[] }> {
    this.#checkedModule ??= this.#instrument();
    const { module, sites, findings } = await this.#checkedModule;
    if (sites.length === 0) return { candidate, findings: [] };
    if (!module) return { candidate, findings: boundsUncheckedFinding(findings) };
    const countsLayout = this.#device.createBindGroupLayout({
      label: 'lab.counts',
      entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'storage' } }],
    });
    const result = await compilePipeline(this.#device, {
      ...this.#pipelineRequest(overrides),
      module,
      extraGroups: [countsLayout],
    });
    if ('findings' in result) return { candidate, findings: boundsUncheckedFinding(result.findings) };
    return { candidate: { ...candidate, checked: { ...result, countsLayout, sites } }, findings: [] };
  }

  #pipelineRequest(overrides: Overrides) {
    const { registration, contract } = this.#input;
    return {
      contract,
      entryPoint: registration.entry_point ?? 'main',
      constants: { ...registration.overrides, ...overrides },
      label: registration.name,
      source: registration.source,
    };
  }

  async #instrument(): Promise<CheckedModule> {
    const { registration, reflection } = this.#input;
    const { source, sites } = instrument(registration.source, reflection);
    if (sites.length === 0) return { sites, findings: [] };
    const { module, findings } = await parseStage(this.#device, source);
    return { module, sites, findings };
  }
}

/** Reported when the checked build fails, for example because one more buffer exceeds the limit of the adapter. */
const boundsUncheckedFinding = (reasons: readonly Finding[]): Finding[] => [
  {
    code: 'bounds_unchecked',
    severity: 'warning',
    message: `out-of-bounds accesses are not checked: ${reasons.find(({ severity }) => severity === 'error')?.message}`,
  },
];

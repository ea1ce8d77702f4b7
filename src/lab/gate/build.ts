/** Compiles a registration: as written, and in a build that checks buffer indices. */
import type { Contract } from '../../../kernels/contracts.ts';
import { parseStage } from '../stages/parse.ts';
import { compilePipeline } from '../stages/pipeline.ts';
import type { Finding, KernelRegistration } from '../types.ts';
import { instrument, type InstrumentedSource } from '../wgsl/instrument.ts';
import type { Reflection } from '../wgsl/reflect.ts';
import { findConditionSites } from './condition-sites.ts';
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
  readonly conditions: InstrumentedSource['conditions'];
  readonly values: InstrumentedSource['values'];
  /** Errors of the compiler. */
  readonly findings: readonly Finding[];
  readonly warnings: readonly Finding[];
}

export class CandidateBuilder {
  readonly #device: GPUDevice;
  readonly #input: BuildInput;

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

  /** Adds a build that counts out-of-bounds accesses and records outcomes of conditions. Returns the candidate unchanged when it has neither. */
  async buildWithBoundsChecks(
    candidate: Candidate,
    overrides: Overrides,
  ): Promise<{ candidate: Candidate; findings: readonly Finding[] }> {
    const { module, sites, conditions, values, findings, warnings } = await this.#instrument(overrides);
    if (sites.length + conditions.length === 0) return { candidate, findings: warnings };
    if (!module) return { candidate, findings: [...warnings, ...boundsUncheckedFinding(findings)] };
    const countsLayout = this.#device.createBindGroupLayout({
      label: 'lab.counts',
      entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'storage' } }],
    });
    const result = await compilePipeline(this.#device, {
      ...this.#pipelineRequest(overrides),
      module,
      extraGroups: [countsLayout],
    });
    if ('findings' in result)
      return { candidate, findings: [...warnings, ...boundsUncheckedFinding(result.findings)] };
    return {
      candidate: { ...candidate, checked: { ...result, countsLayout, sites, conditions, values } },
      findings: warnings,
    };
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

  /** Which conditions are constant, and so have no outcomes to record, depends on the override values. */
  async #instrument(overrides: Overrides): Promise<CheckedModule> {
    const { registration, contract, reflection } = this.#input;
    const found = findConditionSites(reflection, {
      contract,
      entryPoint: registration.entry_point ?? 'main',
      overrides: { ...registration.overrides, ...overrides },
    });
    const { source, sites, conditions, values } = instrument(registration.source, reflection, found.sites, {
      values: found.values,
      entryPoint: registration.entry_point ?? 'main',
    });
    const warnings = found.findings;
    const common = { sites, conditions, values, warnings };
    if (sites.length + conditions.length === 0) return { ...common, findings: [] };
    const { module, findings } = await parseStage(this.#device, source);
    return { ...common, module, findings };
  }
}

/** Reported when the checked build fails, for example because one more buffer exceeds the limit of the adapter. */
const boundsUncheckedFinding = (reasons: readonly Finding[]): Finding[] => [
  {
    code: 'bounds_unchecked',
    severity: 'warning',
    message: `out-of-bounds accesses and the outcomes of conditions are not checked: ${reasons.find(({ severity }) => severity === 'error')?.message}`,
  },
];

import type {
  BenchRequest,
  BenchResult,
  BindOutcome,
  BindRequest,
  ImportConfigRequest,
  ImportedConfig,
  KernelRegistration,
  KernelRegistrationReport,
  KernelVersions,
  LabGraph,
  LabKernelDetail,
  LabParts,
  LabProfile,
  LabStub,
  OpDescriptor,
  ParityMode,
  ParityRunResult,
  ProfileRequest,
  StubOptions,
  ValidationReport,
} from '../lab/types.ts';
import { HostError } from '../host-client/errors.ts';
import { type HostRequest, sendRequest, type HostAddress, type HostHints } from '../host-client/http.ts';
import { commandOf } from '../terminal/program.ts';

const hints: HostHints = {
  token: "give the host's token with --token-file or LATHE_TOKEN",
  start: `start one with \`${commandOf('host')} --gpu\`, or name another with --url`,
  unavailable(code, message) {
    if (code === 'model_loading') return 'the model is still loading; try again in a moment';
    if (code === 'no_resident_model')
      return `no model is loaded, but the lab needs one; start the host with a model: ${commandOf('host')} --gpu`;
    return `the lab is not available: ${message}`;
  },
};

/** HTTP client of the lab API. All methods throw `HostError`, or the abort reason of the signal. */
export class LabClient {
  readonly #host: HostAddress;

  constructor(host: HostAddress) {
    this.#host = host;
  }

  get url(): string {
    return this.#host.url;
  }
  get token(): string | undefined {
    return this.#host.token;
  }

  /** @param members required members of the response */
  async #request<Answer>(hostRequest: HostRequest, ...members: (keyof Answer & string)[]): Promise<Answer> {
    const text = await sendRequest(this.#host, hints, { ...hostRequest, path: `/lab/v1${hostRequest.path}` });
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      throw new HostError(
        'not_a_host',
        `${hostRequest.method} ${hostRequest.path}: expected a JSON response, got other text`,
      );
    }
    const missing = members.filter((name) => !(answer instanceof Object && name in answer));
    if (missing.length > 0)
      throw new HostError(
        'not_a_host',
        `${hostRequest.method} ${hostRequest.path}: the response has no ${missing.join(', ')}; the host may be another version`,
      );
    return answer as Answer;
  }

  async ops(): Promise<readonly OpDescriptor[]> {
    const { ops } = await this.#request<{ ops: OpDescriptor[] }>({ method: 'GET', path: '/ops' }, 'ops');
    return ops;
  }
  async stub(op: string, options: StubOptions): Promise<LabStub> {
    const given = Object.entries(options).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const query = given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`;
    const path = `/ops/${encodeURIComponent(op)}/stub${query}`;
    return await this.#request<LabStub>({ method: 'GET', path }, 'op', 'target', 'source');
  }
  async register(body: KernelRegistration, signal?: AbortSignal): Promise<KernelRegistrationReport> {
    const hostRequest = { method: 'POST', path: '/kernels', body, signal } as const;
    return await this.#request<KernelRegistrationReport>(hostRequest, 'kernel', 'accepted', 'stages');
  }
  async profile(body: ProfileRequest): Promise<LabProfile> {
    return await this.#request<LabProfile>({ method: 'POST', path: '/profile', body }, 'profile', 'hints');
  }
  async graph(signal?: AbortSignal): Promise<LabGraph> {
    return await this.#request<LabGraph>({ method: 'GET', path: '/graph', signal }, 'nodes', 'spans');
  }
  async parts(signal?: AbortSignal): Promise<LabParts> {
    return await this.#request<LabParts>({ method: 'GET', path: '/parts', signal }, 'components', 'slots');
  }
  async bind(body: BindRequest, signal?: AbortSignal): Promise<Partial<BindOutcome>> {
    return await this.#request<BindOutcome>({ method: 'POST', path: '/bindings', body, signal }, 'bound');
  }
  async unbindSome(glob: string): Promise<readonly string[]> {
    const path = `/bindings/${encodeURIComponent(glob)}`;
    return (await this.#request<{ components: readonly string[] }>({ method: 'DELETE', path }, 'components'))
      .components;
  }
  async kernel(name: string): Promise<LabKernelDetail> {
    const path = `/kernels/${encodeURIComponent(name)}`;
    return await this.#request<LabKernelDetail>({ method: 'GET', path }, 'registration', 'report');
  }
  async versions(name: string): Promise<KernelVersions> {
    const path = `/kernels/${encodeURIComponent(name)}/versions`;
    return await this.#request<KernelVersions>({ method: 'GET', path }, 'versions');
  }
  async deleteKernel(name: string): Promise<void> {
    await this.#request<{ deleted: true }>(
      { method: 'DELETE', path: `/kernels/${encodeURIComponent(name)}` },
      'deleted',
    );
  }
  async importConfig(body: ImportConfigRequest): Promise<ImportedConfig> {
    const hostRequest = { method: 'POST', path: '/configs/import', body } as const;
    return await this.#request<ImportedConfig>(hostRequest, 'name', 'report');
  }
  async deleteConfig(name: string): Promise<void> {
    await this.#request<{ deleted: true }>(
      { method: 'DELETE', path: `/configs/${encodeURIComponent(name)}` },
      'deleted',
    );
  }
  async unbind(): Promise<void> {
    await this.#request<{ cleared: true }>({ method: 'DELETE', path: '/bindings' });
  }
  async parityMode(): Promise<ParityMode> {
    return await this.#request<ParityMode>({ method: 'GET', path: '/parity' }, 'mode');
  }
  async setParityMode(body: ParityMode): Promise<ParityMode> {
    return await this.#request<ParityMode>({ method: 'PUT', path: '/parity', body }, 'mode');
  }
  async runParity(signal?: AbortSignal): Promise<ParityRunResult> {
    const hostRequest = { method: 'POST', path: '/parity/run', signal } as const;
    return await this.#request<ParityRunResult>(hostRequest, 'ok', 'components', 'logits');
  }
  async bench(body: BenchRequest, signal?: AbortSignal): Promise<BenchResult> {
    const hostRequest = { method: 'POST', path: '/bench', body, signal } as const;
    return await this.#request<BenchResult>(hostRequest, 'baseline', 'bound', 'verdict');
  }
  async validate(envelope: unknown): Promise<ValidationReport> {
    const hostRequest = { method: 'POST', path: '/validate', body: { envelope } } as const;
    return await this.#request<ValidationReport>(hostRequest, 'ok', 'stages');
  }
  async configs(): Promise<readonly string[]> {
    return await this.#request<readonly string[]>({ method: 'GET', path: '/configs' });
  }
  async config(name: string): Promise<unknown> {
    return await this.#request<object>({ method: 'GET', path: `/configs/${encodeURIComponent(name)}` });
  }
  async saveConfig(name: string): Promise<{ name: string; saved: boolean }> {
    const hostRequest = { method: 'POST', path: '/configs', body: { name } } as const;
    return await this.#request<{ name: string; saved: boolean }>(hostRequest, 'name');
  }
}

import type {
  BenchRequest,
  BenchResult,
  BindOutcome,
  BindRequest,
  KernelRegistration,
  KernelRegistrationReport,
  LabGraph,
  LabParts,
  OpDescriptor,
  ParityMode,
  ParityRunResult,
  ValidationReport,
} from '../lab/types.ts';
import { HostError } from '../host-client/errors.ts';
import { type Exchange, exchange, type HostAddress, type HostHints } from '../host-client/http.ts';

export interface Stub {
  readonly op: string;
  readonly target: string;
  readonly source: string;
}

const hints: HostHints = {
  token: "give the host's token with --token-file or LATHE_TOKEN",
  start: 'start one with `node dist/host.js --gpu`, or name another with --url',
  unavailable(code, message) {
    if (code === 'model_loading') return 'the model is still loading; try again in a moment';
    if (code === 'no_resident_model')
      return 'no model is loaded, but the lab needs one; start the host with a model: node dist/host.js --gpu';
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

  /** @param members required members of the response */
  async #ask<Answer>(asked: Exchange, ...members: (keyof Answer & string)[]): Promise<Answer> {
    const text = await exchange(this.#host, hints, { ...asked, path: `/lab/v1${asked.path}` });
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      throw new HostError(
        'not_a_host',
        `${asked.method} ${asked.path}: expected a JSON response, got other text`,
      );
    }
    const absent = members.filter((name) => !(answer instanceof Object && name in answer));
    if (absent.length > 0)
      throw new HostError(
        'not_a_host',
        `${asked.method} ${asked.path}: the response has no ${absent.join(', ')}; the host may be another version`,
      );
    return answer as Answer;
  }

  async ops(): Promise<readonly OpDescriptor[]> {
    const { ops } = await this.#ask<{ ops: OpDescriptor[] }>({ method: 'GET', path: '/ops' }, 'ops');
    return ops;
  }
  async stub(op: string, target: string | undefined): Promise<Stub> {
    const query = target === undefined ? '' : `?target=${encodeURIComponent(target)}`;
    const path = `/ops/${encodeURIComponent(op)}/stub${query}`;
    return await this.#ask<Stub>({ method: 'GET', path }, 'op', 'target', 'source');
  }
  async register(body: KernelRegistration, signal?: AbortSignal): Promise<KernelRegistrationReport> {
    const asked = { method: 'POST', path: '/kernels', body, signal } as const;
    return await this.#ask<KernelRegistrationReport>(asked, 'kernel', 'accepted', 'stages');
  }
  async graph(signal?: AbortSignal): Promise<LabGraph> {
    return await this.#ask<LabGraph>({ method: 'GET', path: '/graph', signal }, 'nodes', 'spans');
  }
  async parts(signal?: AbortSignal): Promise<LabParts> {
    return await this.#ask<LabParts>({ method: 'GET', path: '/parts', signal }, 'components', 'slots');
  }
  async bind(body: BindRequest, signal?: AbortSignal): Promise<Partial<BindOutcome>> {
    return await this.#ask<BindOutcome>({ method: 'POST', path: '/bindings', body, signal }, 'bound');
  }
  async unbind(): Promise<void> {
    await this.#ask<{ cleared: true }>({ method: 'DELETE', path: '/bindings' });
  }
  async parityMode(): Promise<ParityMode> {
    return await this.#ask<ParityMode>({ method: 'GET', path: '/parity' }, 'mode');
  }
  async setParityMode(body: ParityMode): Promise<ParityMode> {
    return await this.#ask<ParityMode>({ method: 'PUT', path: '/parity', body }, 'mode');
  }
  async runParity(): Promise<ParityRunResult> {
    const asked = { method: 'POST', path: '/parity/run' } as const;
    return await this.#ask<ParityRunResult>(asked, 'ok', 'components', 'logits');
  }
  async bench(body: BenchRequest, signal?: AbortSignal): Promise<BenchResult> {
    const asked = { method: 'POST', path: '/bench', body, signal } as const;
    return await this.#ask<BenchResult>(asked, 'baseline', 'bound', 'verdict');
  }
  async validate(envelope: unknown): Promise<ValidationReport> {
    const asked = { method: 'POST', path: '/validate', body: { envelope } } as const;
    return await this.#ask<ValidationReport>(asked, 'ok', 'stages');
  }
  async configs(): Promise<readonly string[]> {
    return await this.#ask<readonly string[]>({ method: 'GET', path: '/configs' });
  }
  async config(name: string): Promise<unknown> {
    return await this.#ask<object>({ method: 'GET', path: `/configs/${encodeURIComponent(name)}` });
  }
  async saveConfig(name: string): Promise<{ name: string; saved: boolean }> {
    const asked = { method: 'POST', path: '/configs', body: { name } } as const;
    return await this.#ask<{ name: string; saved: boolean }>(asked, 'name');
  }
}

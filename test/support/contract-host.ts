import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { documentChecks } from './documented-answers.ts';
import { freshDataDir, startScriptedHost, startSource } from './host.ts';
import { type ScriptedAnswer, scriptedOpenAi } from './scripted-openai.ts';
import { until } from './until.ts';

interface HostOptions {
  readonly flags?: readonly string[];
  readonly dataDir?: string;
  /** What the model answers to a prompt that has `#name` in it; turn by turn, the last one again and again. */
  readonly says?: Readonly<Record<string, readonly ScriptedAnswer[]>>;
  /** With a resident model that follows this: of test/support/scripted-host.ts. */
  readonly script?: Readonly<Record<string, unknown>> | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

export interface RequestOptions {
  /** JSON, unless it is a text. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer that was found to fit the document of the host that gave it. */
export interface Checked<Body = unknown> {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, or its lines where it is NDJSON. */
  readonly json: Body;
}

/** The id of the model that the hosts' gateway has. */
export const model = 'scripted/one';

/** The product as its own process, without a GPU, over a scripted gateway; each answer is held against its document. */
export async function startContractHost({
  flags = [],
  dataDir = freshDataDir(),
  says = {},
  script,
  env = {},
}: HostOptions) {
  const holds = new Map<string, PromiseWithResolvers<void>>();
  /** A prompt with `#hold-x` in it is answered when `x` is released. */
  const hold = (name: string) => {
    const known = holds.get(name) ?? Promise.withResolvers<void>();
    holds.set(name, known);
    return known;
  };
  const gateway = await scriptedOpenAi(async ({ body: { messages } }) => {
    const userTexts = messages.filter(({ role }) => role === 'user').map(({ content }) => content ?? '');
    const held = /#hold-(\w+)/.exec(userTexts.at(-1) ?? '')?.[1];
    if (held !== undefined) await hold(held).promise;
    const name = /#(?!hold-)([\w-]+)/.exec(userTexts.at(-1) ?? '')?.[1] ?? '';
    const turns = says[name] ?? [{ text: 'Said.' }];
    return turns[messages.filter(({ role }) => role === 'assistant').length] ?? turns.at(-1) ?? {};
  });
  const config = join(mkdtempSync(join(tmpdir(), 'lathe-contract-')), 'lathe.toml');
  writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
  const ports = ['--port', '0', '--control-port', '0'];
  const args = ['--config', config, '--data-dir', dataDir, ...ports, ...flags];
  const host = script ? startScriptedHost(['--gpu', ...args], script, env) : startSource(args, env);
  const url = await host.url();
  const [, control = ''] = await host.waitFor('stdout', /control at (http:[^\s)]+)/);
  const token = (name: string) => readFileSync(join(dataDir, name), 'utf8').trim();
  const bearer = { authorization: `Bearer ${token('bearer.token')}` };
  const operator = { 'x-svc-operator': token('operator.token') };
  const documents = new Map<string, Awaited<ReturnType<typeof documentOf>>>();
  const documentOf = async (base: string) => {
    const answer = await fetch(`${base}/openapi.json`, { headers: bearer });
    return documentChecks((await answer.json()) as Parameters<typeof documentChecks>[0]);
  };
  const fits = async (base: string, method: string, path: string, response: Response, text: string) => {
    const known = documents.get(base) ?? (await documentOf(base));
    documents.set(base, known);
    return known(method, path, response, text);
  };

  const fetched = (
    base: string,
    method: string,
    path: string,
    { body, headers = {} }: RequestOptions = {},
  ) => {
    const isText = typeof body === 'string';
    const type = { 'content-type': isText ? 'text/plain' : 'application/json' };
    return fetch(base + path, {
      method,
      headers: { ...(body === undefined ? {} : type), ...headers },
      ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
    });
  };
  /** The whole answer, when it is there. */
  const checked = async <Body>(
    base: string,
    method: string,
    path: string,
    response: Response,
  ): Promise<Checked<Body>> => {
    const text = await response.text();
    const { status, headers } = response;
    expect(await fits(base, method, path, response, text), `${method} ${path} ${status}`).toEqual([]);
    const type = headers.get('content-type') ?? '';
    const lines = () => text.trimEnd().split('\n').filter(Boolean);
    const json = (
      type.includes('ndjson')
        ? lines().map((line) => JSON.parse(line) as unknown)
        : type.includes('json') && text !== ''
          ? JSON.parse(text)
          : undefined
    ) as Body;
    return { status, headers, text, json };
  };
  const call = async <Body>(method: string, path: string, options?: RequestOptions) =>
    checked<Body>(url, method, path, await fetched(url, method, path, options));
  const wait = async (what: string, isSo: () => Promise<boolean>) => {
    try {
      await until(isSo, what);
    } catch (error) {
      throw new Error(`${String(error)}\n${host.output.stderr}`, { cause: error });
    }
  };
  return {
    host,
    url,
    control,
    dataDir,
    bearer,
    operator,
    gateway,
    call,
    wait,
    release: (name: string) => hold(name).resolve(),
    get: <Body>(path: string, headers: Record<string, string> = {}) => call<Body>('GET', path, { headers }),
    post: <Body>(path: string, body?: unknown, headers: Record<string, string> = {}) =>
      call<Body>('POST', path, { body, headers }),
    /** On the control socket. */
    controlled: async <Body>(method: string, path: string, options?: RequestOptions) =>
      checked<Body>(control, method, path, await fetched(control, method, path, options)),
    /** As soon as the head is there; `rest` reads and checks what follows. */
    async open<Body>(method: string, path: string, options?: RequestOptions) {
      const response = await fetched(url, method, path, options);
      return {
        status: response.status,
        headers: response.headers,
        rest: () => checked<Body>(url, method, path, response),
      };
    },
    async end() {
      await host.end();
      await gateway.close();
    },
  };
}

export type ContractHost = Awaited<ReturnType<typeof startContractHost>>;

/** The status and the error code of a refusal. */
export const refusal = ({ status, json }: Checked) => [
  status,
  (json as { error?: { code?: string } } | undefined)?.error?.code,
];

/** The error message of a refusal. */
export const errorMessageOf = ({ json }: Checked) => (json as { error: { message: string } }).error.message;

/** Lines whose `seq` begins at a number and has no holes. */
export function expectWhole(lines: readonly { seq: number }[], from = 0): void {
  expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => from + index));
}

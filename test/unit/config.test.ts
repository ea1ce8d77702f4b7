import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseCommandLine } from '../../src/config/command-line.ts';
import { helpText } from '../../src/config/help.ts';
import { flagNameOf, optionNames, UsageError } from '../../src/config/options.ts';
import { parseSettings } from '../../src/config/toml.ts';

function faults(run: () => unknown): readonly string[] {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.faults;
    throw error;
  }
  return [];
}
const toml = (source: string) => parseSettings(source, 'host.toml', '/etc/lathe');

describe('the command line', () => {
  test('every flag is parsed', () => {
    const command = parseCommandLine(
      '--gpu --model m.gguf --draft small.gguf --host 127.0.0.1 --port 0 --control-port 8081 --data-dir /d --config h.toml --adapter llvm --dawn-features disable_robustness --context 512 --parallel 2 --queue 3 --kv-cache-bytes 1048576 --no-speculation --exact --kernels fast --trust-key ed25519:0123456789abcdef --trust-key=ed25519:fedcba9876543210 --allow-unverified-kernels --retune --verify full --quiet --allowed-host a --allowed-host=b --database sqlite:/d/x.db --bearer-token-file t --enable-workflow one --enable-workflow two --enable-all-workflows --no-cancelled-state --external-sessions 9 --heartbeat-secs 2 --otlp-endpoint http://c:4318 --store-responses --response-retention 7 --metrics-compat vllm --client-weight peer:desk=4 --client-weight address:::1=0.5 --tls-cert c.pem --tls-key k.pem --alias gpt-4o-mini=resident --alias=x:latest=m --allowed-origin http://localhost:* --allowed-origin=app://* --embedding-model e.gguf --no-truncate --resident 3 --resident-bytes 8000000000'.split(
        ' ',
      ),
    );
    expect(command).toEqual({
      verb: 'serve',
      config: 'h.toml',
      options: {
        gpu: true,
        model: 'm.gguf',
        draft: 'small.gguf',
        embedding_model: 'e.gguf',
        host: '127.0.0.1',
        port: 0,
        control_port: 8081,
        data_dir: '/d',
        adapter: 'llvm',
        dawn_features: ['disable_robustness'],
        context: 512,
        parallel: 2,
        queue: 3,
        kv_cache_bytes: 1048576,
        no_speculation: true,
        no_truncate: true,
        resident: 3,
        resident_bytes: 8_000_000_000,
        exact: true,
        kernels: 'fast',
        trust_key: ['ed25519:0123456789abcdef', 'ed25519:fedcba9876543210'],
        allow_unverified_kernels: true,
        retune: true,
        verify: 'full',
        quiet: true,
        allowed_host: ['a', 'b'],
        store_responses: true,
        response_retention: 7,
        tls_cert: 'c.pem',
        tls_key: 'k.pem',
        alias: [
          { name: 'gpt-4o-mini', target: 'resident' },
          { name: 'x', target: 'm' },
        ],
        allowed_origin: ['http://localhost:*', 'app://*'],
        database: 'sqlite:/d/x.db',
        bearer_token_file: 't',
        enable_workflow: ['one', 'two'],
        enable_all_workflows: true,
        no_cancelled_state: true,
        external_sessions: 9,
        heartbeat_secs: 2,
        otlp_endpoint: 'http://c:4318',
        metrics_compat: 'vllm',
        client_weight: new Map([
          ['peer:desk', 4],
          ['address:::1', 0.5],
        ]),
      },
    });
  });

  test('an unknown flag is an error that suggests a similar one, and all faults are reported at once', () => {
    expect(faults(() => parseCommandLine(['--prot', '80', '--context', 'many', '--model']))).toEqual([
      'unknown flag --prot (did you mean --port?)',
      '--model needs a value',
      '--context: expected a whole number from 1 to 16777216 tokens, got "many"',
    ]);
  });

  test.each([
    [['--port', '65536'], '--port: expected a whole number from 0 to 65535'],
    [['--port', '-1'], '--port: expected a whole number'],
    [['--port', '1.5'], '--port: expected a whole number'],
    [['--model', '--quiet'], '--model needs a value'],
    [['--gpu=yes'], '--gpu takes no value'],
    [['--host', ''], '--host: must not be empty'],
    [['--kernels', '../x'], '--kernels: expected the name of a saved config'],
    [['--trust-key', 'ed25519:0123'], '--trust-key: expected ed25519: and 16 hex digits'],
    [['--retune=no'], '--retune takes no value'],
    [
      ['--dawn-features', 'disable_robustnes'],
      '--dawn-features: expected one of disable_polyfills_on_integer_div_and_mod, disable_robustness, disable_workgroup_init, dump_shaders, enable_integer_range_analysis_in_robustness, skip_validation, vulkan_use_buffer_robust_access_2, vulkan_use_cooperative_matrix_robust_access, got ["disable_robustnes"]',
    ],
    [['--metrics-compat', 'sglang'], '--metrics-compat: expected vllm, got "sglang"'],
    ...['desk=2', 'peer:desk', 'peer:desk=0', 'peer:desk=-1', 'peer:=2', 'peer:a=0.001', 'peer:a=10000'].map(
      (weight): [string[], string] => [
        ['--client-weight', weight],
        '--client-weight: expected CLIENT=N: a peer',
      ],
    ),
    [['--verify', 'fast'], '--verify: expected one of full, sample, off, got "fast"'],
    [['--quantize', 'q5_0'], '--quantize: expected one of q8_0, q4_0, q4_k, got "q5_0"'],
    [['pul', 'x'], "unknown command 'pul' (did you mean 'pull'?)"],
    [
      ['model', 'list'],
      "unknown command 'model' (did you mean 'models'?); the commands are: models, pull, mcp, receipts, recorder",
    ],
    [['models'], 'models needs one of: list, show, pull, rm, verify'],
    [['models', 'lst'], "unknown command 'models lst' (did you mean 'models list'?)"],
    [['models', 'list', 'x'], "models list takes no name, got also 'x'"],
    [['models', 'show'], 'models show needs the name of a model'],
    [['models', 'rm', 'a', 'b'], "models rm takes one name, got also 'b'"],
    [['models', 'rm', 'a', '--json'], '--json does not belong to the command models rm'],
    [['models', 'verify', '--gpu'], '--gpu does not belong to the command models'],
    [['models', 'pull'], 'models pull needs REPO'],
    [['models', 'list', '--revision', 'x'], '--revision belongs to the command pull'],
    [['--json'], '--json belongs to the commands models, mcp, receipts, recorder'],
    [['mcp'], 'mcp needs one of: list, show, pins'],
    [['mcp', 'shw', 'x'], "unknown command 'mcp shw' (did you mean 'mcp show'?)"],
    [['mcp', 'pins'], 'mcp pins needs the name of a server'],
    [['mcp', 'list', '--data-dir', 'x'], '--data-dir does not belong to the command mcp'],
    [['receipts'], 'receipts needs one of: verify'],
    [['receipts', 'verify', 'x', 'y'], "receipts verify takes one name, got also 'y'"],
    [['models', 'list', '--key', 'x'], '--key belongs to the command receipts verify'],
    [['--key', 'x'], '--key belongs to the command receipts verify'],
    [['recorder'], 'recorder needs one of: racks, grants, grant, token, revoke, review'],
    [['recorder', 'grnt'], "unknown command 'recorder grnt' (did you mean 'recorder grant'?)"],
    [['recorder', 'racks', 'agent'], "recorder racks takes no name, got also 'agent'"],
    [['recorder', 'revoke'], 'recorder revoke needs the name of a grant or a token'],
    [['recorder', 'grant', '--rack', 'agent'], 'recorder grant needs --verbs read,write --expires 30d'],
    [['recorder', 'token'], 'recorder token needs --rack RACK'],
    [['recorder', 'token', '--rack', 'agents'], "--rack: there is no rack 'agents' (did you mean 'agent'?)"],
    [['recorder', 'token', '--rack', 'agent', '--verbs', 'read'], '--verbs does not belong to the command'],
    [['recorder', 'grant', '--verbs', 'read,wirte'], '--verbs: expected read, write or read,write'],
    [['recorder', 'grant', '--expires', '30'], '--expires: expected a duration such as 90d'],
    [['recorder', 'grant', '--to', 'peer:No'], '--to: expected bearer or peer:NAME'],
    [['recorder', 'token', '--label', ''], '--label: expected 1 to 100 characters'],
    [['recorder', 'review', '--after', 'last'], '--after: expected the number of an entry'],
    [['recorder', 'racks', '--database', 'sqlite:x'], '--database does not belong to the command recorder'],
    [['models', 'list', '--rack', 'agent'], '--rack belongs to the command recorder'],
    [['--expires', '30d'], '--expires belongs to the command recorder'],
    [['--host', '0.0.0.0:80'], '--host: expected an address or a host name, without port and brackets'],
    [['--host', '[::1]'], '--host: expected an address or a host name'],
    [['--heartbeat-secs', '0'], '--heartbeat-secs: expected a whole number from 1 to 3600 seconds, got 0'],
    [['--allowed-origin', 'example.com'], '--allowed-origin: "example.com": expected an origin such as'],
    [
      ['--allowed-origin', 'null', '--allowed-origin', 'http://x/', '--allowed-origin', 'http://x:80'],
      `--allowed-origin: "null": 'null' is the origin of files and sandboxed frames, which any page can open; name an origin with a scheme; "http://x/": an origin ends with its host and port, without a path; "http://x:80": browsers write this origin as http://x`,
    ],
    [['--allowed-origin', 'http://*.a.*'], "expected at most one '*'"],
    [
      '=m a= a=b=c ab x=m x=n y:latest=m y=n resident=m a/b=c'
        .split(' ')
        .flatMap((alias) => ['--alias', alias]),
      `--alias: "=m": the name is empty; expected NAME=MODEL; "a=": the model is empty; expected NAME=MODEL; "a=b=c": expected NAME=MODEL with one '='; "ab": expected NAME=MODEL with one '='; "x=n": the name 'x' is given twice; "y=n": the name 'y' is given twice; "resident=m": 'resident' stands for the resident model; choose another name, got`,
    ],
    [['--external-sessions', '100001'], '--external-sessions: expected a whole number from 1 to 100000'],
    [['--enable-workflow', 'Nope'], '--enable-workflow: expected a lower-case letter'],
    [['pull', 'a/b@v1', '--revision', 'v2'], 'two revisions: @v1 and --revision v2'],
    [['pull'], 'pull needs REPO'],
    [['pull', 'a/b', 'c'], "got also 'c'"],
    [['pull', 'a/b:'], 'is not REPO or REPO:FILE'],
    [['pull', 'a/b', '--gpu'], '--gpu does not belong to the command pull'],
    [['--revision', 'main'], '--revision belongs to the command pull'],
  ])('%j is refused: %s', (args, message) => {
    expect(faults(() => parseCommandLine(args)).join('\n')).toContain(message);
  });

  test('pull reads REPO[:FILE] and its own flags', () => {
    expect(parseCommandLine(['pull', 'o/r:f.gguf', '--revision', 'v1', '--data-dir', '/d'])).toEqual({
      verb: 'pull',
      repo: 'o/r',
      file: 'f.gguf',
      revision: 'v1',
      options: { data_dir: '/d' },
    });
    expect(parseCommandLine(['pull', 'o/r'])).toEqual({ verb: 'pull', repo: 'o/r', options: {} });
    const whole = { verb: 'pull', repo: 'o/r', file: 'q/f.gguf', revision: 'v1', options: {} };
    expect(parseCommandLine(['pull', 'hf:o/r:q/f.gguf@v1'])).toEqual(whole);
    expect(parseCommandLine(['models', 'pull', 'o/r:q/f.gguf', '--revision', 'v1'])).toEqual(whole);
  });

  test('models reads an action, a name and --json', () => {
    const shared = { verb: 'models', options: { data_dir: '/d' }, json: false };
    const parse = (...args: string[]) => parseCommandLine(['models', ...args, '--data-dir', '/d']);
    expect(parse('list', '--json')).toEqual({ ...shared, action: 'list', json: true });
    expect(parse('show', 'x')).toEqual({ ...shared, action: 'show', name: 'x' });
    expect(parse('rm', 'x')).toEqual({ ...shared, action: 'rm', name: 'x' });
    expect(parse('verify')).toEqual({ ...shared, action: 'verify' });
    expect(parse('verify', 'x')).toEqual({ ...shared, action: 'verify', name: 'x' });
  });

  test('recorder parses an action with its flags, and reports all faults at once', () => {
    const shared = { verb: 'recorder', options: {}, json: false };
    const parse = (words: string) => parseCommandLine(['recorder', ...words.split(' ')]);
    expect(parse('racks --json')).toEqual({ ...shared, action: 'racks', json: true });
    expect(parse('grants --rack gateway')).toEqual({ ...shared, action: 'grants', rack: 'gateway' });
    const grant = parse('grant --rack agent --verbs write,read,write --expires 36h --to peer:desk');
    expect(grant).toEqual({
      ...shared,
      action: 'grant',
      rack: 'agent',
      verbs: ['write', 'read'],
      to: 'peer:desk',
      expires: expect.any(Function) as unknown,
    });
    const { expires } = grant as Extract<typeof grant, { action: 'grant' }>;
    expect(expires(new Date('2030-01-31T00:00:00Z'))).toEqual(new Date('2030-02-01T12:00:00Z'));
    expect(parse('token --rack agent --label ci')).toEqual({
      ...shared,
      action: 'token',
      rack: 'agent',
      label: 'ci',
    });
    expect(parse('revoke g1')).toEqual({ ...shared, action: 'revoke', name: 'g1' });
    expect(parse('review --rack agent --after 9')).toEqual({
      ...shared,
      action: 'review',
      rack: 'agent',
      after: 9,
    });
    expect(faults(() => parse('grant x --rack nope --expires soon --label a'))).toEqual([
      "recorder grant takes no name, got also 'x'",
      'recorder grant needs --verbs read,write',
      "--rack: there is no rack 'nope'; the racks are: agent, completions, workflows, gateway, external",
      "--expires: expected a duration such as 90d (m, h, d, w) or a date such as 2030-01-31, got 'soon'",
      '--label does not belong to the command recorder grant',
    ]);
  });

  test('mcp and receipts read an action and --json', () => {
    const mcp = { verb: 'mcp', config: 'h.toml', options: {}, json: false };
    const parse = (words: string) => parseCommandLine(words.split(' '));
    expect(parse('mcp list --config h.toml')).toEqual({ ...mcp, action: 'list' });
    expect(parse('mcp show files --config h.toml')).toEqual({ ...mcp, action: 'show', name: 'files' });
    expect(parse('mcp pins files --json --config h.toml')).toEqual({
      ...mcp,
      action: 'pins',
      name: 'files',
      json: true,
    });
    expect(parse('receipts verify one.json --key abc=')).toEqual({
      verb: 'receipts',
      action: 'verify',
      name: 'one.json',
      key: 'abc=',
      json: false,
      options: {},
    });
    expect(parse('receipts verify --database sqlite:x --json')).toEqual({
      verb: 'receipts',
      action: 'verify',
      options: { database: 'sqlite:x' },
      json: true,
    });
  });

  test('an address beyond loopback is accepted; a value that may hold a password is not repeated', () => {
    for (const host of ['0.0.0.0', '::', '192.168.1.5', 'fe80::1', 'my-host.example'])
      expect(parseCommandLine(['--host', host])).toMatchObject({ options: { host } });
    const wrong = faults(() => parseCommandLine(['--database', 'mysql://me:hunter2@h/d']));
    expect(wrong).toEqual(['--database: expected sqlite:PATH or postgres://...']);
    for (const url of ['collector:4318/hunter2', 'grpc://c/?key=hunter2', 'http://me:hunter2@c:4318'])
      expect(faults(() => parseCommandLine(['--otlp-endpoint', url]))).toEqual([
        expect.stringMatching(
          /^--otlp-endpoint: (?:expected an http:\/\/ or https:\/\/ URL|must not hold a user or password)(?!.*hunter2)/,
        ),
      ]);
  });

  test('--quantize accepts a type in any letter case', () => {
    expect(parseCommandLine(['--quantize', 'Q4_k'])).toMatchObject({ options: { quantize: 'Q4_K' } });
  });

  test('--help and --version take precedence over everything except unknown flags before them', () => {
    expect(parseCommandLine(['--gpu', '-h'])).toEqual({ verb: 'help' });
    expect(parseCommandLine(['--version'])).toEqual({ verb: 'version' });
  });

  test('the help names every option', () => {
    const help = helpText('1.2.3');
    for (const name of optionNames) expect(help).toContain(flagNameOf(name));
    expect(Math.max(...help.split('\n').map((line) => line.length))).toBeLessThanOrEqual(110);
  });
});

describe('the TOML file', () => {
  test('every option is a key, with _ or -', () => {
    const source = `gpu = true\nmodel = "tiny"\ndraft = "tinier"\nquantize = "q8_0"\nhost = "::1"\nport = 0\ncontrol-port = 1\ndata_dir = "/d"\nadapter = "a"\ndawn_features = ["disable_robustness"]
context = 9\nparallel = 1\nqueue = 0\nkv_cache_bytes = 1\nno_speculation = true\nexact = true\nkernels = "k"\ntrust-key = ["ed25519:0123456789abcdef"]\nallow_unverified_kernels = true\nretune = true\nverify = "off"\nswap = true\ndatabase = "postgres://h/d"\nbearer_token_file = "t"\ngateway_config = "g.toml"\ngateway-admin-port = 2\ngateway_admin_token_file = "o"\nenable-workflow = ["w"]\nenable_all_workflows = false\nno_cancelled_state = true\nexternal_sessions = 1\nheartbeat_secs = 3600\notlp-endpoint = "https://c/otlp?key=k"\nallowed_host = ["x"]\nstore_responses = true\nresponse-retention = 1\nquiet = false\nmetrics_compat = "vllm"\nclient_weight = ["account:a=2"]\ntls_cert = "c.pem"\ntls_key = "/k.pem"\nalias = ["a=b"]\nallowed_origin = ["*"]\nembedding_model = "e"\nno_truncate = true\nresident = 1\nresident-bytes = 1\n`;
    const options = toml(source);
    expect(new Set(Object.keys(options))).toEqual(new Set(optionNames));
    expect(options.control_port).toBe(1);
    expect([options.tls_cert, options.tls_key]).toEqual(['/etc/lathe/c.pem', '/k.pem']);
  });

  test('all faults are reported at once, each with file, line and key', () => {
    const source =
      '# c\nport = 70000\ngpuu = true\n\nadapter = """\ncontext = 1"""\ncontext = 0\n[server]\nport = 1\n';
    expect(faults(() => toml(source))).toEqual([
      'host.toml:2: port: expected a whole number from 0 to 65535 (0 picks a free port), got 70000',
      'host.toml:3: gpuu: unknown key (did you mean gpu?)',
      'host.toml:7: context: expected a whole number from 1 to 16777216 tokens, got 0',
      'host.toml:8: server: unknown key',
    ]);
  });

  test('a syntax error is reported with line, column and key; so are an address with a port and a repeated key', () => {
    expect(faults(() => toml('gpu = true\nport = = 3\n'))).toEqual([
      expect.stringMatching(/^host\.toml:2:8: port: not valid TOML: /),
    ]);
    expect(faults(() => toml('gpu = true\n= 3\n'))).toEqual([
      expect.stringMatching(/^host\.toml:2:1: not valid TOML: /),
    ]);
    expect(faults(() => toml('gpu = true\n\nhost = "0.0.0.0:80"\n'))).toEqual([
      'host.toml:3: host: expected an address or a host name, without port and brackets, got "0.0.0.0:80"',
    ]);
    expect(faults(() => toml('data_dir = "a"\ndata-dir = "b"\n'))).toEqual([
      'host.toml:2: data-dir: the same option as data_dir; keep one of the two',
    ]);
  });

  test('paths are relative to the file, names and URLs stay as they are', () => {
    expect(toml('data_dir = "data"').data_dir).toBe('/etc/lathe/data');
    expect(toml('model = "./m.gguf"').model).toBe('/etc/lathe/m.gguf');
    expect(toml('model = "sub/m.gguf"').model).toBe('/etc/lathe/sub/m.gguf');
    expect(toml('model = "lathe-tiny"').model).toBe('lathe-tiny');
    expect(toml('draft = "./d.gguf"').draft).toBe('/etc/lathe/d.gguf');
    expect(toml('embedding-model = "./e.gguf"').embedding_model).toBe('/etc/lathe/e.gguf');
    expect(toml('embedding_model = "bge"').embedding_model).toBe('bge');
    expect(toml('draft = "hf:o/n"').draft).toBe('hf:o/n');
    expect(toml('model = "https://h/m.gguf"').model).toBe('https://h/m.gguf');
    expect(toml('bearer_token_file = "b.token"').bearer_token_file).toBe('/etc/lathe/b.token');
    expect(toml('database = "sqlite:x.db"').database).toBe('sqlite:/etc/lathe/x.db');
    expect(toml('database = "postgres://h/d"').database).toBe('postgres://h/d');
  });

  test('any invalid text throws a usage error only', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string({ unit: fc.constantFrom('a', '=', '"', '\n', '[', ']', '.', '1', '#') }),
        ),
        (source) => {
          faults(() => toml(source));
        },
      ),
    );
  });
});

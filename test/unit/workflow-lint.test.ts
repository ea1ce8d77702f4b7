import { describe, expect, it } from 'vitest';
import { parseEnsemble } from '../../src/agent/workflows/definition/parse-ensemble.ts';
import { lintText, workflow } from '../support/workflows.ts';

/** `line:column code path` of each. */
async function found(source: string, kind: 'errors' | 'warnings' = 'errors') {
  const { report } = await lintText(source);
  return report[kind].map(({ code, line, column, path }) => `${line}:${column} ${code} ${path}`);
}

const twoSteps = (second: string, first = 'agent = "worker"\nprompt = "Go."') =>
  workflow({ steps: `[[steps]]\nid = "a"\n${first}\n[[steps]]\nid = "b"\n${second}\n` });
const needing = (prompt: string, more = '') =>
  twoSteps(`agent = "worker"\nneeds = ["a"]\nprompt = '''${prompt}'''\n${more}`);
const inputs = '[inputs.topic]\ntype = "string"\n[inputs.options]\ntype = "object"\n';

const errors: [string, string, string[]][] = [
  ['no TOML', '[ensemble]\nname = "x\n', ['2:10 toml_syntax ']],
  ['a key twice', '[ensemble]\nname = "x"\nname = "y"\n', ['3:1 toml_syntax ']],
  ['nothing', '', ['1:1 missing_key ensemble', '1:1 missing_key steps']],
  ['no name', workflow().replace('name = "plain"', ''), ['1:2 missing_key ensemble.name']],
  ['a bad name', workflow({ name: 'Plain Name' }), ['2:8 bad_name ensemble.name']],
  ...['runs', 'builtins', 'fork'].map((name): [string, string, string[]] => [
    name,
    workflow({ name }),
    ['2:8 reserved_name ensemble.name'],
  ]),
  ['a version that is no text', workflow({ header: 'version = 1' }), ['3:11 wrong_type ensemble.version']],
  ['a number too large', workflow({ header: 'x = 12345678901234567890' }), ['3:5 toml_value ']],
  ['inf', workflow({ header: 'x = inf' }), ['3:5 toml_value ']],
  ['__proto__', workflow({ header: '__proto__ = 1' }), ['3:1 toml_value ']],
  ['no steps', '[ensemble]\nname = "x"\nsteps = []\n', ['1:1 missing_key steps']],
  [
    'an agent without instructions',
    workflow({ rest: '[agents.b]' }),
    ['6:9 missing_key agents.b.instructions'],
  ],
  [
    'an agent of a bad name',
    workflow({ rest: '[agents."B b"]\ninstructions = ""' }),
    ['6:9 bad_name agents.B b'],
  ],
  ['an agent of another name', workflow({ rest: 'name = "other"' }), ['6:8 bad_name agents.worker.name']],
  [
    'an unknown agent',
    workflow().replace('agent = "worker"', 'agent = "workr"'),
    ['9:9 unknown_agent steps.0.agent'],
  ],
  [
    'a prompt without agent',
    workflow().replace('agent = "worker"', ''),
    ['10:10 missing_key steps.0.prompt'],
  ],
  ['an agent without prompt', workflow({ step: '' }), ['9:9 missing_key steps.0.agent']],
  ['a step of nothing', workflow({ steps: '[[steps]]\nid = "a"' }), ['7:3 empty_step steps.0']],
  ['a second step of nothing', twoSteps(''), ['11:3 empty_step steps.1']],
  ['a step without id', workflow().replace('id = "only"', ''), ['7:3 missing_key steps.0.id']],
  [
    'ids twice',
    twoSteps('gate = {kind="approval"}').replace('"b"', '"a"'),
    ['12:6 duplicate_step steps.1.id'],
  ],
  [
    'an unknown need',
    twoSteps('gate = {kind="approval"}\nneeds = ["a", "c"]'),
    ['14:15 unknown_step steps.1.needs.1'],
  ],
  [
    'needs itself',
    workflow({ step: 'prompt = "Go."\nneeds = ["only"]' }),
    ['11:10 needs_cycle steps.0.needs.0'],
  ],
  [
    'a circle',
    twoSteps('gate = {kind="approval"}\nneeds = ["a"]', 'gate = {kind="approval"}\nneeds = ["b"]'),
    ['10:9 needs_cycle steps.0.needs', '14:9 needs_cycle steps.1.needs'],
  ],
  [
    'a timeout of nothing',
    workflow({ step: 'prompt = ""\ntimeout_secs = 0' }),
    ['11:16 bad_value steps.0.timeout_secs'],
  ],
  [
    'a retry of texts',
    workflow({ step: 'prompt = ""\nretry = {attempts = "2"}' }),
    ['11:21 wrong_type steps.0.retry.attempts'],
  ],
  [
    'an unknown gate',
    workflow({ step: 'prompt = ""\ngate = {kind = "person"}' }),
    ['11:16 wrong_type steps.0.gate.kind'],
  ],
  [
    'a gate without kind',
    workflow({ step: 'prompt = ""\ngate = {}' }),
    ['11:1 missing_key steps.0.gate.kind'],
  ],
  [
    'a time gate of both',
    workflow({ step: 'prompt = ""\ngate = {kind = "time", after_secs = 1, until = 2030-01-01T00:00:00Z}' }),
    ['11:8 bad_gate steps.0.gate'],
  ],
  [
    'a time without offset',
    workflow({ step: 'prompt = ""\ngate = {kind = "time", until = 2030-01-01T00:00:00}' }),
    ['11:32 bad_gate steps.0.gate.until'],
  ],
  [
    'an unknown event',
    workflow({ step: 'prompt = ""\ngate = {kind = "event", name = "task.fail"}' }),
    ['11:32 unknown_event steps.0.gate.name'],
  ],
  [
    'where, not CEL',
    workflow({ step: 'prompt = ""\ngate = {kind = "event", name = "user.x", where = "data.n >"}' }),
    ['11:50 bad_condition steps.0.gate.where'],
  ],
  [
    'expr that is a number',
    workflow({ step: 'prompt = ""\ngate = {kind = "value", expr = "1 + 1"}' }),
    ['11:32 bad_condition steps.0.gate.expr'],
  ],
  [
    'a gate that is no schema',
    workflow({ step: 'prompt = ""\ngate = {kind = "input", schema = {type = "objekt"}}' }),
    ['11:34 bad_schema steps.0.gate.schema', '11:42 bad_schema steps.0.gate.schema.type'],
  ],
  [
    'an output that is no schema',
    workflow({ step: 'prompt = ""\noutput_schema = {minLength = "a"}' }),
    ['11:17 bad_schema steps.0.output_schema'],
  ],
  [
    'a schema that hangs elsewhere',
    workflow({ step: 'prompt = ""\noutput_schema = {"$ref" = "https://example.com/s"}' }),
    ['11:17 bad_schema steps.0.output_schema'],
  ],
  [
    'a step with an agent and a workflow',
    workflow({ step: 'prompt = ""\nworkflow = "inner"' }),
    ['11:12 bad_step steps.0.workflow'],
  ],
  [
    'inputs and a list without what they are for',
    workflow({
      steps: '[[steps]]\nid = "a"\ngate = {kind = "approval"}\nforeach = "inputs.x"\ninputs = {a = 1}',
    }),
    [
      '10:11 bad_step steps.0.foreach',
      '10:11 bad_reference steps.0.foreach',
      '11:10 bad_step steps.0.inputs',
    ],
  ],
  [
    'a list that is no reference',
    workflow({ step: 'prompt = ""\nforeach = "[1, 2]"' }),
    ['11:11 bad_value steps.0.foreach'],
  ],
  [
    'a list of a step that is not needed',
    workflow({ step: 'prompt = ""\nforeach = "steps.only.output"' }),
    ['11:11 bad_reference steps.0.foreach'],
  ],
  [
    'an item without a list',
    workflow({ step: 'prompt = "{{item}}"' }),
    ['10:11 bad_reference steps.0.prompt'],
  ],
  [
    'members of an index',
    workflow({ rest: '[inputs.x]\ntype = "array"', step: 'prompt = "{{index.a}}"\nforeach = "inputs.x"' }),
    ['11:11 bad_reference steps.0.prompt'],
  ],
  [
    'references in inputs of a workflow',
    workflow({
      steps:
        '[[steps]]\nid = "a"\nworkflow = "inner"\ninputs = { topic = "{{inputs.y}}", more = ["{{item}}"] }',
    }),
    ['10:21 bad_reference steps.0.inputs.topic', '10:45 bad_reference steps.0.inputs.more.0'],
  ],
  [
    'a workflow that runs it again',
    workflow({ name: 'w', steps: '[[steps]]\nid = "a"\nworkflow = "circle"' }),
    ['9:12 workflow_cycle steps.0.workflow'],
  ],
  ['too many at once', workflow({ header: 'parallel = 17' }), ['3:12 bad_value ensemble.parallel']],
  ['an input of no type', workflow({ rest: '[inputs.x]\ntype = "text"' }), ['7:8 bad_value inputs.x.type']],
  [
    'an input of a bad name',
    workflow({ rest: '[inputs."x y"]\ntype = "string"' }),
    ['6:9 bad_name inputs.x y'],
  ],
  [
    'a default of another type',
    workflow({ rest: '[inputs.x]\ntype = "integer"\ndefault = 1.5' }),
    ['8:11 bad_default inputs.x.default'],
  ],
  [
    'a default outside the enum',
    workflow({ rest: '[inputs.x]\ntype = "string"\nenum = ["a", 2]\ndefault = "b"' }),
    ['8:14 bad_value inputs.x.enum.1', '9:11 bad_default inputs.x.default'],
  ],
  [
    'an unknown input',
    needing('Go {{inputs.topc}}', '').replace('[[steps]]', `${inputs}[[steps]]`),
    ['19:16 bad_reference steps.1.prompt'],
  ],
  [
    'members of a text',
    needing('{{inputs.topic.x}} {{inputs.options.x}}').replace('[[steps]]', `${inputs}[[steps]]`),
    ['19:13 bad_reference steps.1.prompt'],
  ],
  ['an unknown root', needing('{{foo.bar}}'), ['15:13 bad_reference steps.1.prompt']],
  ['an open brace', needing('{{steps.a.output'), ['15:13 bad_template steps.1.prompt']],
  ['no reference', needing('{{ 1 + 1 }}'), ['15:13 bad_template steps.1.prompt']],
  [
    'a step that is not needed',
    needing('{{steps.a.output}}').replace('needs = ["a"]', ''),
    ['15:13 bad_reference steps.1.prompt'],
  ],
  [
    'a later step',
    workflow({ step: 'prompt = "{{steps.only.output}}"' }),
    ['10:11 bad_reference steps.0.prompt'],
  ],
  ['an unknown member', needing('{{steps.a.result}}'), ['15:13 bad_reference steps.1.prompt']],
  ['members of an answer', needing('{{steps.a.output.x}}'), ['15:13 bad_reference steps.1.prompt']],
  [
    'the output of a wait',
    twoSteps('agent="worker"\nneeds=["a"]\nprompt="{{steps.a.output}}"', 'gate = {kind="approval"}'),
    ['14:9 bad_reference steps.1.prompt'],
  ],
  ['gate without gate', workflow({ step: 'prompt = "{{gate.x}}"' }), ['10:11 bad_reference steps.0.prompt']],
  ['when, not CEL', workflow({ step: 'prompt = ""\nwhen = "1 +"' }), ['11:8 bad_condition steps.0.when']],
  ['when, a text', workflow({ step: `prompt = ""\nwhen = '"yes"'` }), ['11:8 bad_condition steps.0.when']],
  [
    'when, unknown roots, all of them',
    workflow({ step: 'prompt = ""\nwhen = "foo.x && bar == 1"' }),
    ['11:9 bad_condition steps.0.when', '11:18 bad_condition steps.0.when'],
  ],
  [
    'when, unknown input',
    workflow({ step: 'prompt = ""\nwhen = "inputs.x == 1"' }),
    ['11:16 bad_reference steps.0.when'],
  ],
  [
    'when, unknown members of the host',
    workflow({ step: 'prompt = ""\nwhen = "host.x == 1 || host.model.y || host.pending > 0"' }),
    ['11:14 bad_reference steps.0.when', '11:29 bad_reference steps.0.when'],
  ],
  [
    'when, the host as a whole',
    workflow({ step: 'prompt = ""\nwhen = "host == 1"' }),
    ['11:9 bad_condition steps.0.when'],
  ],
  [
    'where, the host',
    workflow({
      step: 'prompt = ""\ngate = { kind = "event", name = "user.x", where = "host.pending == 0" }',
    }),
    ['11:52 bad_condition steps.0.gate.where'],
  ],
  [
    'when, data',
    workflow({ step: 'prompt = ""\nwhen = "data.x == 1"' }),
    ['11:9 bad_condition steps.0.when'],
  ],
  [
    'grants that are not absolute',
    workflow({ rest: 'grants = {read = ["src", "/a/../b"], write = ["~/x"]}' }),
    [
      '6:19 bad_grant agents.worker.grants.read.0',
      '6:26 bad_grant agents.worker.grants.read.1',
      '6:47 bad_grant agents.worker.grants.write.0',
    ],
  ],
  [
    'a template in a grant',
    workflow({ rest: 'grants = {read = ["/data/{{inputs.topic}}"], tools = ["{{input}}"]}' }),
    [
      '6:19 template_in_grant agents.worker.grants.read.0',
      '6:55 bad_grant agents.worker.grants.tools.0',
      '6:55 template_in_grant agents.worker.grants.tools.0',
    ],
  ],
  [
    'a host with a path',
    workflow({ rest: 'grants = {network = ["https://x.org/a"]}' }),
    ['6:22 bad_grant agents.worker.grants.network.0'],
  ],
  [
    'a workspace without input',
    workflow({ rest: 'grants = {read = ["."]}' }),
    ['6:19 no_workspace agents.worker.grants.read.0'],
  ],
  [
    'a workspace of an unknown input',
    workflow({ rest: 'grants = {read = ["."]}\n[workspace]\ninput = "x"' }),
    ['8:9 unknown_input workspace.input'],
  ],
  [
    'a workspace that leaves itself',
    workflow({ rest: 'grants = {read = ["./../x"]}\n[workspace]\ninput = "x"\n[inputs.x]\ntype = "string"' }),
    ['6:19 bad_grant agents.worker.grants.read.0'],
  ],
  [
    'a workspace of a number',
    workflow({ rest: 'grants = {read = ["."]}\n[workspace]\ninput = "x"\n[inputs.x]\ntype = "number"' }),
    ['8:9 wrong_type workspace.input'],
  ],
  [
    'output of an unknown step',
    workflow({ rest: '[output]\nfrom = "onyl"' }),
    ['7:8 unknown_step output.from'],
  ],
  ['an entry of no kind', workflow({ rest: '[entry]\nkind = "cron"' }), ['7:8 wrong_type entry.kind']],
  [
    'a schedule without cron',
    workflow({ rest: '[entry]\nkind = "schedule"' }),
    ['6:2 missing_key entry.cron'],
  ],
  [
    'cron of six fields',
    workflow({ rest: '[entry]\nkind = "schedule"\ncron = "0 0 3 * * *"' }),
    ['8:8 bad_cron entry.cron'],
  ],
  [
    'cron out of bounds',
    workflow({ rest: '[entry]\nkind = "schedule"\ncron = "61 3 * * *"' }),
    ['8:8 bad_cron entry.cron'],
  ],
  [
    'cron that never comes',
    workflow({ rest: '[entry]\nkind = "schedule"\ncron = "0 0 30 2 *"' }),
    ['8:8 never_fires entry.cron'],
  ],
  [
    'an unknown zone',
    workflow({ rest: '[entry]\nkind = "schedule"\ncron = "0 3 * * *"\ntz = "Europe/Berln"' }),
    ['9:6 unknown_time_zone entry.tz'],
  ],
];

describe('errors of a workflow', () => {
  it.each(errors)('%s', async (_, source, expected) => {
    expect(await found(source)).toEqual(expected);
    // What other resources say is no fault of the source.
    if (!expected.some((one) => /unknown_agent|workflow_cycle/.test(one)))
      expect(() => parseEnsemble(source)).toThrow();
  });

  it('are reported all at once, in the order of the lines', async () => {
    const source = workflow({
      name: 'Bad',
      rest: 'grants = {read = ["x"]}\n[inputs.a]\ntype = "text"',
      step: 'prompt = "{{inputs.b}}"\nwhen = "nope"\nneeds = ["x"]',
    });
    expect((await found(source)).map((one) => one.split(' ')[1])).toEqual([
      'bad_name',
      'bad_grant',
      'bad_value',
      'bad_reference',
      'bad_condition',
      'unknown_step',
    ]);
  });

  it('suggest similar names', async () => {
    const { report } = await lintText(workflow({ step: 'prompt = "{{inputs.topc}}"', rest: inputs }));
    expect(report.errors[0]?.message).toContain("did you mean 'topic'?");
    const dashes = workflow({
      rest: '[inputs.my-x]\ntype = "boolean"',
      step: 'prompt = ""\nwhen = "inputs.my - inputs.x"',
    });
    expect((await lintText(dashes)).report.errors[0]?.message).toContain('["my-x"]');
  });

  it('have the same positions after a byte order mark and with CRLF line ends', async () => {
    const source = workflow({ step: 'prompt = "{{inputs.x}}"' });
    const expected = ['10:11 bad_reference steps.0.prompt'];
    expect(await found(source)).toEqual(expected);
    expect(await found(`\uFEFF${source.replaceAll('\n', '\r\n')}`)).toEqual(expected);
  });

  it('point into texts of several lines', async () => {
    const source = workflow({ step: 'prompt = """\nfirst\n  {{inputs.x}}"""' });
    expect(await found(source)).toEqual(['12:3 bad_reference steps.0.prompt']);
  });
});

const warnings: [string, string, string[]][] = [
  [
    'unknown keys',
    workflow({ header: 'verison = "1"', step: 'prompt = ""\ntimeout = 3\nretry = {attempts = 2, wait = 1}' }),
    [
      '3:1 unknown_key ensemble.verison',
      '11:1 unknown_key steps.0.timeout',
      '12:24 unknown_key steps.0.retry.wait',
    ],
  ],
  ['an unknown table', workflow({ rest: '[agnets.x]\na = 1' }), ['6:2 unknown_key agnets']],
  [
    'an unused agent',
    workflow({ rest: '[agents.idle]\ninstructions = ""' }),
    ['6:9 unused_agent agents.idle'],
  ],
  ['an unused input', workflow({ rest: '[inputs.x]\ntype = "string"' }), ['6:9 unused_input inputs.x']],
  [
    'an unknown tool',
    workflow({ rest: 'grants = {tools = ["fs_raed"]}' }),
    ['6:20 unknown_tool agents.worker.grants.tools.0'],
  ],
  [
    'changes without asking',
    workflow({ rest: 'grants = {tools = ["fs_*"], auto_approve = ["*"]}' }),
    ['6:45 unasked_changes agents.worker.grants.auto_approve.0'],
  ],
  [
    'a needless required',
    workflow({
      step: 'prompt = "{{inputs.x}}"',
      rest: '[inputs.x]\ntype = "string"\nrequired = true\ndefault = ""',
    }),
    ['8:12 needless_required inputs.x.required'],
  ],
  [
    'an unused workspace',
    workflow({ rest: '[workspace]\ninput = "x"\n[inputs.x]\ntype = "string"' }),
    ['6:2 unused_workspace workspace'],
  ],
  [
    'limits of a wait',
    workflow({ steps: '[[steps]]\nid = "a"\ngate = {kind="approval"}\nretry = {attempts = 2}' }),
    ['4:9 unused_agent agents.worker', '10:1 no_effect steps.0.retry'],
  ],
  [
    'a template in instructions',
    workflow({ rest: '[agents.b]\ninstructions = "x {{input}}"' }),
    ['6:9 unused_agent agents.b', '7:19 template_not_filled agents.b.instructions'],
  ],
];

describe('warnings of a workflow', () => {
  it.each(warnings)('%s', async (_, source, expected) => {
    expect(await found(source)).toEqual([]);
    expect(await found(source, 'warnings')).toEqual(expected);
    expect((await lintText(source)).report.ok).toBe(true);
  });
});

describe('limits', () => {
  it('refuse more than 256 KiB and more than 200 steps', async () => {
    expect(await found(`${workflow()}#${'x'.repeat(256 * 1024)}`)).toEqual(['1:1 too_large ']);
    const step = (n: number) => `[[steps]]\nid = "s${n}"\ngate = {kind = "approval"}\n`;
    const steps = (count: number) =>
      workflow({ steps: Array.from({ length: count }, (_, n) => step(n)).join('') });
    expect(await found(steps(200))).toEqual([]);
    expect(await found(steps(201))).toEqual(['7:3 bad_value steps']);
  });

  it.each([
    ['lists', `a = ${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['dotted keys', `${'a.'.repeat(100_000)}b = 1`],
    ['dotted tables', `[${'a.'.repeat(100_000)}b]`],
    ['inline tables', `a = ${'{b = '.repeat(70)}1${'}'.repeat(70)}`],
  ])('refuse %s that nest too deep', async (_, source) => {
    expect(await found(source)).toContainEqual(expect.stringMatching(/^1:\d+ toml_too_deep $/));
  });

  it('refuse schemas that take long to compile', async () => {
    const schema = (members: string) =>
      workflow({ step: `prompt = ""\noutput_schema = {properties = {${members}}}` });
    const many = Array.from({ length: 4000 }, (_, n) => `p${n} = {type = "string"}`).join(', ');
    const long = Array.from({ length: 50 }, (_, n) => `p${n} = {pattern = "(a{99}){9}${n}"}`).join(', ');
    for (const members of [many, long])
      expect(await found(schema(members))).toEqual(['11:17 bad_schema steps.0.output_schema']);
    const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
    const usual = Array.from({ length: 50 }, (_, n) => `p${n} = {pattern = "^${id}$"}`).join(', ');
    expect(await found(schema(usual))).toEqual([]);
  });

  it('refuse a text that is too long for the parser', async () => {
    expect(await found(workflow({ step: `prompt = "${'x'.repeat(100_001)}"` }))).toEqual([
      '10:10 bad_value steps.0.prompt',
    ]);
    expect((await found(workflow({ step: `prompt = "${'x'.repeat(250_000)}"` }))).length).toBe(1);
    expect(await found(workflow({ step: `prompt = "${'x'.repeat(100_000)}"` }))).toEqual([]);
  });

  it('limit the length of a report', async () => {
    const source = workflow({ header: Array.from({ length: 5000 }, (_, n) => `k${n} = ${n}`).join('\n') });
    expect(await found(source, 'warnings')).toHaveLength(200);
  });
});

describe('a workflow that lints', () => {
  it('is parsed with its defaults, in the order in which it runs', () => {
    const { name, steps, agents } = parseEnsemble(
      workflow({
        steps: `[[steps]]\nid = "last"\nneeds = ["first"]\nagent = "worker"\nprompt = "{{steps.first.output}}"
[[steps]]\nid = "first"\nagent = "worker"\nprompt = "Go."\n[[steps]]\nid = "wait"\ngate = {kind = "value", expr = "now > run.started_at"}`,
      }),
    );
    expect(name).toBe('plain');
    expect(steps.map(({ id }) => id)).toEqual(['first', 'last', 'wait']);
    expect(steps[0]).toMatchObject({ needs: [], timeout_secs: 600, retry: { attempts: 1, backoff_secs: 0 } });
    expect(steps[2]?.gate).toMatchObject({ poll_secs: 30 });
    expect(agents['worker']).toMatchObject({
      name: 'worker',
      model: 'resident',
      grants: { tools: [], read: [] },
    });
  });

  it('lists the rights of its agents, including stored ones', async () => {
    const source = workflow({
      rest: `model = "big"
grants = {tools = ["fs_*", "run_command"], read = ["/b", "/a"], network = ["x.org"], auto_approve = ["fs_edit"]}
[agents.idle]
instructions = ""
grants = {tools = ["http_get"]}
[entry]
kind = "schedule"
cron = "0 3 * * *"
tz = "Europe/Berlin"`,
      steps: `[[steps]]\nid = "a"\nagent = "worker"\nprompt = ""\n[[steps]]\nid = "b"\nagent = "helper"\nprompt = ""`,
    });
    expect((await lintText(source)).consent).toEqual({
      tools: ['fs_*', 'fs_write', 'run_command'],
      read: ['/a', '/b'],
      write: ['/srv'],
      network: ['x.org'],
      models: ['big', 'resident'],
      workflows: [],
      schedule: { cron: '0 3 * * *', tz: 'Europe/Berlin', next: '2026-01-01T02:00:00.000Z' },
      destructive: [
        { tool: 'fs_delete', approval: 'person' },
        { tool: 'fs_edit', approval: 'automatic' },
        { tool: 'fs_write', approval: 'person' },
        { tool: 'run_command', approval: 'person' },
      ],
    });
  });
});

describe('workflows as steps', () => {
  const inner = '[[steps]]\nid = "a"\nworkflow = "inner"\ninputs = {topic = "x"}\n';

  it('include the rights of their agents, and models of steps', async () => {
    const more = '[[steps]]\nid = "b"\nagent = "worker"\nprompt = ""\nmodel = "third"';
    const { consent, report } = await lintText(workflow({ steps: `${inner}${more}` }));
    expect(report.ok).toBe(true);
    expect(consent).toMatchObject({
      tools: ['fs_read'],
      read: ['/inner'],
      models: ['other', 'resident', 'third'],
      workflows: ['inner'],
    });
  });

  it('warns of one that is not there', async () => {
    const { report } = await lintText(workflow({ steps: inner.replace('"inner"', '"outer"') }));
    expect(report).toMatchObject({
      ok: true,
      warnings: [{ code: 'unused_agent' }, { code: 'unknown_workflow' }],
    });
  });
});

describe('the consent summary of TOML that parses', () => {
  const granted = 'grants = {tools = ["fs_write"], write = ["/srv"], auto_approve = ["fs_write"]}\n';
  const expected = {
    tools: ['fs_write'],
    write: ['/srv'],
    models: ['resident'],
    destructive: [{ tool: 'fs_write', approval: 'automatic' }],
  };
  const deep = `${'['.repeat(80)}${']'.repeat(80)}`;

  it.each([
    ['a missing prompt', workflow({ rest: granted, step: '' })],
    ['no name', workflow({ rest: granted }).replace('name = "plain"', '')],
    ['a reserved name', workflow({ name: 'runs', rest: granted })],
    ['no steps', workflow({ rest: granted, steps: '' })],
    [
      '[steps] instead of [[steps]]',
      workflow({ rest: granted, steps: '[steps]\nagent = "worker"\nprompt = "Go."' }),
    ],
    ['an agent of a step that is no text', workflow({ rest: granted, steps: '[[steps]]\nagent = 5' })],
    ['limits out of bounds', workflow({ rest: `${granted}limits = {max_turns = -1}` })],
    ['a grant that is no text', workflow({ rest: granted.replace('["/srv"]', '["/srv", 5]') })],
    ['a grant that is no list', workflow({ rest: granted.replace('["/srv"]', '"/srv"') })],
    ['a model that is no text', workflow({ rest: `${granted}model = 5` })],
    ['no instructions', workflow({ rest: granted }).replace('instructions = "Work."', '')],
    ['a value that JSON has no form for', workflow({ rest: `${granted}extra = inf` })],
    ['a value that nests too deep', workflow({ rest: `${granted}extra = ${deep}` })],
    ['a key that nests too deep', workflow({ rest: `${granted}${'a.'.repeat(80)}b = 1` })],
  ])('is there with %s', async (_, source) => {
    const { report, consent } = await lintText(source);
    expect(report.ok).toBe(false);
    expect(consent).toMatchObject(expected);
  });

  it('names a schedule that does not fire, stored agents beside unknown ones, and a workspace', async () => {
    const step = (id: string, agent: string) =>
      `[[steps]]\nid = "${id}"\nagent = "${agent}"\nprompt = "Go."\n`;
    const { report, consent } = await lintText(
      workflow({
        rest: '[entry]\nkind = "schedule"\ncron = "61 3 * * *"\n[workspace]\ninput = "nowhere"',
        steps: step('a', 'helper') + step('b', 'nobody'),
      }),
    );
    expect(report.ok).toBe(false);
    expect(consent).toMatchObject({
      write: ['/srv'],
      schedule: { cron: '61 3 * * *', tz: 'UTC' },
      workspace: 'nowhere',
    });
  });

  it('is absent when the source is not TOML', async () => {
    for (const source of ['name = ', `${workflow()}[steps`, `a = ${'['.repeat(100_000)}`])
      expect(await lintText(source)).not.toHaveProperty('consent');
  });
});

describe('frequent mistakes', () => {
  const firstError = async (source: string) => (await lintText(source)).report.errors[0]?.message;
  const step = '[[steps]]\nid = "a"\n';

  it.each([
    [
      'a mistyped kind of gate',
      workflow({ steps: `${step}gate = {kind = "aproval"}` }),
      /got 'aproval'; did you mean 'approval'\?$/,
    ],
    [
      'no kind of entry',
      workflow({ rest: '[entry]\nkind = "cron"' }),
      /kind = "schedule" or "armed", got 'cron'$/,
    ],
    [
      '[steps]',
      `[ensemble]\nname = "x"\n[[steps]]\nid = "a"\n[steps]\nid = "b"\n`,
      /each step begins with \[\[steps\]\]/,
    ],
    ['curl -d', workflow().replaceAll('\n', ''), /--data-binary/],
  ])('%s: says what to write', async (_, source, expected) => {
    expect(await firstError(source)).toMatch(expected);
  });
});

import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BuiltinWorkflows } from '../../src/agent/workflows/builtin-workflows.ts';
import { computeSourceDigest } from '../../src/agent/workflows/source-digest.ts';
import { evaluateCondition } from '../../src/agent/workflows/definition/conditions.ts';
import { parseEnsemble } from '../../src/agent/workflows/definition/parse-ensemble.ts';
import { parseTemplate, renderTemplate } from '../../src/agent/workflows/definition/templates.ts';
import { stampOrigin } from '../../src/agent/workflows/stamp-origin.ts';
import { catalog, lintText, workflow } from '../support/workflows.ts';

const folder = fileURLToPath(new URL('../../workflows', import.meta.url));
const builtins = await BuiltinWorkflows.open(folder);
const listed = builtins.list(catalog, (name) => name === 'code-review', new Date('2026-01-01T00:00:00Z'));
const names = [
  'code-review',
  'failure-report',
  'kernel-tuning',
  'nightly-health',
  'release-notes',
  'research-brief',
];

describe('built-in workflows', () => {
  it('are listed with their rights', () => {
    expect(listed.map(({ name }) => name)).toEqual(names);
    const nightly = listed.find(({ name }) => name === 'nightly-health');
    expect(nightly?.schedule).toEqual({ cron: '0 3 * * *', tz: 'UTC', next: '2026-01-01T03:00:00.000Z' });
    const review = listed.find(({ name }) => name === 'code-review');
    expect(review).toMatchObject({
      origin: 'builtin:code-review@1.0.0',
      enabled: true,
      schedule: null,
      inputs: { folder: { type: 'string', required: true } },
      consent: {
        tools: ['fs_list', 'fs_read', 'fs_search'],
        write: [],
        network: [],
        workspace: 'folder',
        destructive: [],
      },
    });
    expect(review?.steps[1]).toEqual({
      id: 'check',
      needs: ['review'],
      agent: 'sceptic',
      when: 'steps.review.output.findings.size() > 0',
    });
  });

  it.each(names)('%s lints without findings, also as a fork', async (name) => {
    const source = builtins.get(name)?.source ?? '';
    const { report } = await lintText(source);
    expect(report).toEqual({ ok: true, name, errors: [], warnings: [] });
    const fork = stampOrigin(source, { name: 'mine', origin: `builtin:${name}@1.0.0` });
    expect((await lintText(fork)).report).toEqual({ ok: true, name: 'mine', errors: [], warnings: [] });
    expect(computeSourceDigest(fork)).not.toBe(builtins.get(name)?.digest);
  });

  it('are refused when they depend on stored agents', () => {
    const header = 'version = "1"\ndescription = "d"';
    const foreign = workflow({ header }).replace('agent = "worker"', 'agent = "helper"');
    expect(() => new BuiltinWorkflows([foreign])).toThrow("stored agent 'helper'");
    expect(() => new BuiltinWorkflows([workflow()])).toThrow('version or description');
    expect(() => new BuiltinWorkflows(['nonsense'])).toThrow('cannot be read');
  });

  it('have conditions with the intended results', () => {
    const when = (name: string, id: string) => {
      const { steps } = parseEnsemble(builtins.get(name)?.source ?? '');
      const step = steps.find((one) => one.id === id);
      return step?.gate?.kind === 'value' ? step.gate.expr : (step?.when ?? '');
    };
    const view = {
      workflow: 'w',
      input: '',
      run: {
        id: 'r1',
        started_at: '2026-01-01T00:00:00.000Z',
      },
      inputs: {},
      steps: {},
      host: { pending: 0, tasks_running: 0, external_sessions: 0, completions_served: 0, model: '' },
      now: new Date('2026-01-05T09:00:00Z'),
    };
    const after = (id: string, output: unknown) => ({
      ...view,
      steps: { [id]: { state: 'completed' as const, output } },
    });
    const night = when('nightly-health', 'explain');
    expect(evaluateCondition(night, after('look', { healthy: true, failed: 0, summary: '' }))).toBe(false);
    expect(evaluateCondition(night, after('look', { healthy: true, failed: 2, summary: '' }))).toBe(true);
    const check = when('code-review', 'check');
    expect(evaluateCondition(check, after('review', { findings: [] }))).toBe(false);
    expect(evaluateCondition(check, after('review', { findings: [{}] }))).toBe(true);
    const save = when('research-brief', 'save');
    expect([
      evaluateCondition(save, view),
      evaluateCondition(save, { ...view, inputs: { folder: '/srv' } }),
    ]).toEqual([false, true]);
    const hours = when('failure-report', 'hours');
    expect(evaluateCondition(hours, { ...view, inputs: { zone: 'UTC' } })).toBe(true);
    expect(evaluateCondition(hours, { ...view, inputs: { zone: 'Asia/Tokyo' } })).toBe(false);
    expect(
      evaluateCondition(hours, { ...view, inputs: { zone: 'UTC' }, now: new Date('2026-01-04T09:00:00Z') }),
    ).toBe(false);
  });

  it.each(names)('%s fills in its prompts from outputs that fit their schemas', (name) => {
    const { steps, inputs } = parseEnsemble(builtins.get(name)?.source ?? '');
    const outputs: Readonly<Record<string, unknown>> = {
      review: { findings: [] },
      look: { healthy: false, failed: 1, summary: 'one failed' },
      target: { op: 'matmul', reason: 'most bytes', worthwhile: true },
      choice: { op: '' },
      kernel: { name: 'mine', accepted: true, idea: 'larger tiles' },
      measure: { faster: false, numbers: '1.0' },
    };
    const view = {
      workflow: name,
      input: '',
      run: {
        id: 'r1',
        started_at: '2026-01-01T00:00:00.000Z',
      },
      inputs: Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input.default ?? key])),
      steps: Object.fromEntries(
        steps.map(({ id }) => [
          id,
          {
            state: 'completed' as const,
            output: outputs[id] ?? `of ${id}`,
          },
        ]),
      ),
      gate: { remarks: '' },
    };
    for (const { prompt = '', gate } of steps) {
      expect(parseTemplate(prompt).faults).toEqual([]);
      expect(renderTemplate(prompt, view)).not.toContain('{{');
      expect(renderTemplate(gate?.message ?? '', view)).not.toContain('{{');
    }
  });
});

describe('a stamp', () => {
  const origin = 'builtin:x@1';

  it('changes nothing but the name and adds a line', () => {
    const source = `# first\n[ensemble] # header\nname   =  'plain'   # its name\nversion = "1"  \n\n[[steps]]\nid = "a"`;
    expect(stampOrigin(source, { name: 'mine', origin })).toBe(
      source.replace("'plain'   # its name\n", `"mine"   # its name\norigin = "${origin}"\n`),
    );
    const windows = `\uFEFF${source.replaceAll('\n', '\r\n')}`;
    expect(stampOrigin(windows, { name: 'mine', origin })).toBe(
      windows.replace("'plain'   # its name\r\n", `"mine"   # its name\r\norigin = "${origin}"\r\n`),
    );
  });

  it('replaces an existing origin', () => {
    const source = '[ensemble]\norigin = "old"\nname = "plain"\n';
    expect(stampOrigin(source, { name: 'mine', origin })).toBe(
      `[ensemble]\norigin = "${origin}"\nname = "mine"\n`,
    );
  });

  it('can be added after the last line', () => {
    expect(stampOrigin('[ensemble]\nname = "plain"', { name: 'mine', origin })).toBe(
      `[ensemble]\nname = "mine"\norigin = "${origin}"\n`,
    );
  });
});

describe('the page for authors', () => {
  it('shows only workflows that lint without findings', async () => {
    const page = await readFile(new URL('../../docs/workflows.md', import.meta.url), 'utf8');
    const examples = [...page.matchAll(/```toml\n(.*?)```/gs)].map(([, text = '']) => text);
    expect(examples.length).toBeGreaterThan(3);
    for (const example of examples.filter((text) => text.includes('[ensemble]')))
      expect((await lintText(example)).report).toMatchObject({ ok: true, errors: [], warnings: [] });
  });

  it('names every code of a finding', async () => {
    const page = await readFile(new URL('../../docs/workflows.md', import.meta.url), 'utf8');
    const definition = new URL('../../src/agent/workflows/definition/', import.meta.url);
    const sources = await Promise.all(
      (await readdir(definition)).map((file) => readFile(new URL(file, definition), 'utf8')),
    );
    const named = /(?:findings\.(?:error|warn)\(\s*|code: |return |\? )'([a-z]+(?:_[a-z]+)+)'/g;
    const used = sources.flatMap((text) => [...text.matchAll(named)].flatMap(([, code]) => code ?? []));
    expect(used.length).toBeGreaterThan(30);
    for (const code of used) expect(page).toContain(`\`${code}\``);
  });
});

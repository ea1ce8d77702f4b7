import { beforeAll, describe, expect, it } from 'vitest';
import { parseStage } from '../../src/lab/stages/parse.ts';
import type { Finding } from '../../src/lab/types.ts';
import { nullDevice } from '../support/null-gpu.ts';

let device: GPUDevice;
let uncaptured: string[];
beforeAll(async () => {
  ({ device, uncaptured } = await nullDevice([]));
});

const findingsOf = async (source: string): Promise<Finding[]> => (await parseStage(device, source)).findings;
const brief = ({ code, severity, line, column, length }: Finding) =>
  `${code} ${severity} ${line}:${column}+${length}`;

describe('parse stage', () => {
  it('returns the module of valid source, without findings', async () => {
    const { module, findings } = await parseStage(device, '@compute @workgroup_size(1) fn main() {}');
    expect(findings).toEqual([]);
    expect((await module?.getCompilationInfo())?.messages).toEqual([]);
  });

  it('returns all errors of the parser with their locations', async () => {
    const { module, findings } = await parseStage(
      device,
      'fn f() -> u32 { return 1 }\nfn g() { let ; }\nfn h() { var x = ; }',
    );
    expect(module).toBeUndefined();
    expect(findings.map(brief)).toEqual([
      'wgsl_error error 1:26+1',
      'wgsl_error error 2:14+1',
      'wgsl_error error 3:18+1',
    ]);
  });

  it('keeps uniformity notes with a reference to their message', async () => {
    const findings = await findingsOf(`@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
  if (x[i] > 1) {
    workgroupBarrier();
  }
}`);
    expect(findings.map(brief)).toEqual([
      'wgsl_error error 5:5+16',
      'wgsl_note info 4:3+2',
      'wgsl_note info 4:7+1',
    ]);
    expect(findings[0]?.message).toContain('uniform control flow');
    expect(findings[1]?.message).toMatch(/^\(to 5:5\) control flow depends on/);
  });

  it('warnings do not fail the stage', async () => {
    const { module, findings } = await parseStage(
      device,
      '@compute @workgroup_size(1) fn main() { return; let y = 1; }',
    );
    expect(module).toBeDefined();
    expect(findings.map(brief)).toEqual(['wgsl_warning warning 1:49+5']);
  });

  it.each<[string, string, string]>([
    ['CRLF', '// a\r\n// b\r\nfn f() -> u32 {\r\n  return 1.5;\r\n}\r\n', '4:10+3'],
    ['characters of two UTF-16 units before it', '/* é中😀 */ fn f() -> u32 { return 1.5; }', '1:35+3'],
    ['such characters on lines before it', '// 😀😀\n// é\nfn f() -> u32 { return 1.5; }', '3:24+3'],
    ['a name of such characters', 'fn f() -> u32 { let 数 = 1u; return 1.5; }', '1:36+3'],
    ['a character it does not know', 'fn f() { let a = 😀; }', '1:18+1'],
  ])('places count UTF-16 from 1: %s', async (_, source, place) => {
    expect((await findingsOf(source)).map(brief)).toEqual([`wgsl_error error ${place}`]);
  });

  it.each(['', ' \n\t ', '\ufeff'])('empty source %j is rejected', async (source) => {
    expect(await findingsOf(source)).toEqual([
      expect.objectContaining({ code: 'empty_source', severity: 'error' }),
    ]);
  });

  it('source over 256 KiB is rejected, exactly 256 KiB is not; counted in bytes', async () => {
    const shader = '@compute @workgroup_size(1) fn main() {}\n//';
    const largestSource = shader + '-'.repeat(256 * 1024 - shader.length);
    expect(await findingsOf(largestSource)).toEqual([]);
    expect(await findingsOf(`${largestSource}-`)).toEqual([
      {
        code: 'source_too_long',
        severity: 'error',
        message: 'expected at most 262144 bytes, got 262145',
      },
    ]);
    expect((await findingsOf(`//${'é'.repeat(131_072)}`)).map(({ code }) => code)).toEqual([
      'source_too_long',
    ]);
  });

  it('a NUL character is rejected with its location', async () => {
    expect((await findingsOf('fn f() {}\r\n// é\0\n')).map(brief)).toEqual(['nul_character error 2:5+1']);
  });

  it('long lists of messages are truncated, with a note', async () => {
    const findings = await findingsOf('fn f() {}\n'.repeat(1000));
    expect(findings).toHaveLength(201);
    expect(findings.at(-1)).toMatchObject({ code: 'more_messages', severity: 'info' });
  });

  it('an extension that the device does not support is an error', async () => {
    const findings = await findingsOf('enable f16;\n@compute @workgroup_size(1) fn main() {}');
    expect(findings.map(brief)).toEqual(['wgsl_error error 1:8+3']);
  });

  it('causes no uncaptured device errors', async () => {
    await device.queue.onSubmittedWorkDone();
    expect(uncaptured).toEqual([]);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readHeader } from '../../src/lab/kernel-header.ts';
import {
  directives,
  overridesOf,
  registrationOf,
  withDirectives,
  withOverride,
} from '../../web/console/views/lab/kernels/manifest.ts';

const text = `//! op: rms_norm
//! dispatch: tokens
//! override WG = 64
// A comment.

override WG: u32 = 32; // override NOT: u32 = 1;
override ROWS = 2u;
/* override HIDDEN: u32; */
override NEEDED: u32;
//! name: too_late
fn main() {}
`;

describe('the manifest in the source of a kernel', () => {
  it('reads the values of the fields', () => {
    expect(directives(text, 'op')).toEqual(['rms_norm']);
    expect(directives(text, 'dispatch')).toEqual(['tokens']);
    expect(directives(text, 'name')).toEqual([]);
    expect(overridesOf(text)).toEqual([
      { name: 'WG', defaultValue: '32', value: '64', candidates: '' },
      { name: 'ROWS', defaultValue: '2u', value: '', candidates: '' },
      { name: 'NEEDED', defaultValue: undefined, value: '', candidates: '' },
    ]);
  });

  it('writes a field in place, or after the other lines', () => {
    const changed = withDirectives(withDirectives(text, 'dispatch', ['ceil(rows / WG), tokens']), 'name', [
      'mine',
    ]);
    expect(changed.split('\n').slice(0, 5)).toEqual([
      '//! op: rms_norm',
      '//! dispatch: ceil(rows / WG), tokens',
      '//! override WG = 64',
      '//! name: mine',
      '// A comment.',
    ]);
    expect(withDirectives(text, 'dispatch', [])).toBe(text.replace('//! dispatch: tokens\n', ''));
    expect(withDirectives('fn main() {}', 'op', ['add'])).toBe('//! op: add\nfn main() {}');
  });

  it('writes overrides separately, and omits those without a value', () => {
    const candidates = withOverride(text, 'tune', 'ROWS', '1, 2, 4');
    expect(candidates).toContain('//! override WG = 64\n//! tune ROWS = 1, 2, 4\n');
    expect(withOverride(text, 'override', 'WG', '')).not.toContain('//! override');
    expect(overridesOf(withOverride(text, 'override', 'ROWS', '8, '))[1]?.value).toBe('8, ');
  });

  it('changes only its own lines, whatever the text', () => {
    const line = fc.oneof(
      fc.constantFrom(
        '//! op: add',
        '//! name: x',
        '//!',
        '//! tune WG = 1, 2',
        '// note',
        '',
        'fn main() {}',
        '  ',
      ),
      fc.string(),
    );
    const source = fc
      .array(line, { maxLength: 12 })
      .map((lines) => lines.join('\n').replaceAll(/[\r\n]+/g, '\n'));
    fc.assert(
      fc.property(source, fc.stringMatching(/^[a-z0-9(),/ ]{1,20}$/), (before, value) => {
        fc.pre(value.trim() === value);
        const after = withDirectives(before, 'dispatch', [value]);
        expect(directives(after, 'dispatch')).toEqual([value]);
        expect(withDirectives(after, 'dispatch', [])).toBe(
          directives(before, 'dispatch').length === 0 ? before : withDirectives(before, 'dispatch', []),
        );
        expect(withDirectives(after, 'dispatch', [value])).toBe(after);
        expect(readHeader(after.split('\n')).places.has('dispatch')).toBe(true);
      }),
    );
  });
});

describe('the registration request', () => {
  it('has the values of the lines', () => {
    const source = withDirectives(
      withOverride(text.replace('//! name: too_late\n', ''), 'tune', 'ROWS', '1, 2'),
      'name',
      ['mine'],
    );
    expect(registrationOf(source, 'rms_norm')).toEqual({
      registration: {
        name: 'mine',
        op: 'rms_norm',
        source,
        dispatch: { x: 'tokens' },
        overrides: { WG: 64 },
        tunables: { ROWS: [1, 2] },
      },
    });
  });

  it('is not created when lines are invalid: all are reported with their positions', () => {
    const made = registrationOf('//! op: add\n//! colour: red\nfn main() {}\n', 'rms_norm');
    expect(
      'faults' in made && made.faults.map(({ line, column, message }) => `${line}:${column} ${message}`),
    ).toEqual([
      expect.stringMatching(/^2:5 unknown directive 'colour'/),
      expect.stringMatching(/^1:5 the workbench is open for rms_norm/),
      expect.stringMatching(/^1:1 no name/),
      expect.stringMatching(/^1:1 no dispatch/),
    ]);
  });
});

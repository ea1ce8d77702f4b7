/** Theme of the editor. It uses the variables of tokens.css, so it follows the theme of the page. */
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const baseTheme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--ground)', fontSize: '0.85rem' },
  // The surrounding frame shows the focus.
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)', padding: '6px 0' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    backgroundColor: 'var(--sunken)',
    color: 'var(--muted)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent) 3%, transparent)' },
  '.cm-activeLineGutter': { backgroundColor: 'var(--accent-ground)', color: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '&.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--accent-ground)',
    outline: '1px solid var(--accent)',
  },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-ground)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    boxShadow: 'var(--shadow)',
    maxWidth: 'min(70ch, 90vw)',
  },
  '.cm-diagnostic': { padding: '6px 10px', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' },
  '.cm-diagnostic-error': { borderLeft: '4px solid var(--bad)' },
  '.cm-diagnostic-warning': { borderLeft: '4px solid var(--warn)' },
  '.cm-diagnostic-info': { borderLeft: '4px solid var(--accent)' },
  '.cm-lintRange': { paddingBottom: '1px', backgroundPosition: 'left bottom' },
  '.cm-lintRange-error': wavyUnderline('var(--bad)'),
  '.cm-lintRange-warning': wavyUnderline('var(--warn)'),
  '.cm-lintRange-info': wavyUnderline('var(--accent)'),
  '.cm-lintPoint-error:after': { borderBottomColor: 'var(--bad)' },
  '.cm-lintPoint-warning:after': { borderBottomColor: 'var(--warn)' },
  '.cm-lintPoint-info:after': { borderBottomColor: 'var(--accent)' },
  '.cm-lintRange-active': { backgroundColor: 'var(--accent-ground)' },
  // Severity is shown by a letter, not by color alone.
  '.cm-gutter-lint': { width: '1.3em' },
  '.cm-gutter-lint .cm-gutterElement': { padding: '0 0.15em', display: 'grid', placeItems: 'center' },
  '.cm-gutter-lint .cm-lint-marker': {
    width: '1.15em',
    height: '1.15em',
    borderRadius: '3px',
    font: '700 0.85em / 1.15 var(--sans)',
    textAlign: 'center',
  },
  '.cm-gutter-lint .cm-lint-marker-error': severityMarker('E', 'bad'),
  '.cm-gutter-lint .cm-lint-marker-warning': severityMarker('W', 'warn'),
  '.cm-gutter-lint .cm-lint-marker-info': severityMarker('i', 'accent'),
});

function wavyUnderline(color: string) {
  return {
    backgroundImage: 'none',
    textDecoration: `underline wavy ${color}`,
    textDecorationSkipInk: 'none',
    textUnderlineOffset: '3px',
  };
}

function severityMarker(letter: string, tone: string) {
  return {
    // Removes the icon of the base theme.
    content: 'normal',
    '&::before': { content: `"${letter}"` },
    color: `var(--${tone})`,
    backgroundColor: `var(--${tone}-ground)`,
  };
}

const highlightStyle = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.meta, tags.attributeName], color: 'var(--series-2)' },
  { tag: [tags.keyword, tags.modifier], color: 'var(--series-3)' },
  { tag: tags.typeName, color: 'var(--series-5)' },
  { tag: [tags.number, tags.bool, tags.atom, tags.null], color: 'var(--series-4)' },
  { tag: tags.string, color: 'var(--series-6)' },
  { tag: [tags.propertyName, tags.function(tags.variableName)], color: 'var(--text)' },
  { tag: tags.standard(tags.function(tags.variableName)), color: 'var(--series-1)' },
  { tag: [tags.definition(tags.variableName), tags.definition(tags.typeName)], fontWeight: '600' },
  { tag: [tags.operator, tags.punctuation], color: 'var(--muted)' },
  { tag: tags.invalid, color: 'var(--bad)', textDecoration: 'underline' },
]);

export const editorTheme = [baseTheme, syntaxHighlighting(highlightStyle)];

import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, indentOnInput, indentUnit, StreamLanguage } from '@codemirror/language';
import { json } from '@codemirror/legacy-modes/mode/javascript';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import { lintGutter, nextDiagnostic, previousDiagnostic } from '@codemirror/lint';
import { EditorState, type Extension, Prec } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import type { CodeEditorProps } from './code-editor.tsx';
import { editorTheme } from './code-mirror-theme.ts';
import { wgslMode } from './wgsl-mode.ts';

const languages: Readonly<Record<CodeEditorProps['language'], Extension>> = {
  wgsl: StreamLanguage.define(wgslMode),
  toml: StreamLanguage.define(toml),
  json: StreamLanguage.define(json),
  text: EditorView.lineWrapping,
};

/** How long Tab moves the focus after Escape; any other key ends it sooner. */
const tabFocusMs = 30_000;

/** The extensions of an editor. @param of.run returns whether it handled the key */
export function editorExtensions(options: {
  readonly language: CodeEditorProps['language'];
  readonly isReadOnly: boolean;
  readonly label: string;
  /** Id of the element that describes the keys. */
  readonly hint: string;
  readonly run: () => boolean;
}): Extension {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content;
  return [
    nonce ? EditorView.cspNonce.of(nonce) : [],
    EditorView.contentAttributes.of({
      'aria-label': options.label,
      'aria-describedby': options.hint,
      tabindex: '0',
    }),
    lineNumbers(),
    lintGutter(),
    highlightSpecialChars(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    drawSelection(),
    bracketMatching(),
    indentUnit.of('  '),
    EditorState.tabSize.of(2),
    EditorState.readOnly.of(options.isReadOnly),
    languages[options.language],
    editorTheme,
    Prec.high(
      keymap.of([
        { key: 'Mod-Enter', run: options.run },
        { key: 'Ctrl-Enter', run: options.run },
        { key: 'F8', run: nextDiagnostic },
        { key: 'Shift-F8', run: previousDiagnostic },
      ]),
    ),
    options.isReadOnly
      ? []
      : [
          history(),
          indentOnInput(),
          keymap.of([...historyKeymap, indentWithTab]),
          escapeHandler,
          replaceSelectionHandler,
        ],
    keymap.of(defaultKeymap),
  ];
}

const escapeHandler = EditorView.domEventHandlers({
  keyup: (event, view) => {
    if (event.key === 'Escape') view.setTabFocusMode(tabFocusMs);
  },
  blur: (_, view) => view.setTabFocusMode(0),
});

/**
 * When text is typed over a selection, browsers keep its formatting in a style attribute, which violates the page's
 * Content-Security-Policy. The editor therefore replaces the selection itself.
 */
const replaceSelectionHandler = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { data, inputType } = event;
    if (inputType !== 'insertText' || data === null || view.composing || view.state.selection.main.empty)
      return false;
    view.dispatch(view.state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true });
    return true;
  },
});

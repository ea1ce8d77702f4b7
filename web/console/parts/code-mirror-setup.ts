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
import { look } from './code-mirror-look.ts';
import { wgslMode } from './wgsl-mode.ts';

const languages: Readonly<Record<CodeEditorProps['language'], Extension>> = {
  wgsl: StreamLanguage.define(wgslMode),
  toml: StreamLanguage.define(toml),
  json: StreamLanguage.define(json),
  text: EditorView.lineWrapping,
};

/** How long Tab moves the focus after Escape; any other key ends it sooner. */
const leaveMs = 30_000;

/** The extensions of an editor. @param of.run returns whether it handled the key */
export function extensionsFor(of: {
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
    EditorView.contentAttributes.of({ 'aria-label': of.label, 'aria-describedby': of.hint, tabindex: '0' }),
    lineNumbers(),
    lintGutter(),
    highlightSpecialChars(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    drawSelection(),
    bracketMatching(),
    indentUnit.of('  '),
    EditorState.tabSize.of(2),
    EditorState.readOnly.of(of.isReadOnly),
    languages[of.language],
    look,
    Prec.high(
      keymap.of([
        { key: 'Mod-Enter', run: of.run },
        { key: 'Ctrl-Enter', run: of.run },
        { key: 'F8', run: nextDiagnostic },
        { key: 'Shift-F8', run: previousDiagnostic },
      ]),
    ),
    of.isReadOnly
      ? []
      : [history(), indentOnInput(), keymap.of([...historyKeymap, indentWithTab]), leaving, replacing],
    keymap.of(defaultKeymap),
  ];
}

const leaving = EditorView.domEventHandlers({
  keyup: (event, view) => {
    if (event.key === 'Escape') view.setTabFocusMode(leaveMs);
  },
  blur: (_, view) => view.setTabFocusMode(0),
});

/**
 * When text is typed over a selection, browsers keep its formatting in a style attribute, which violates the page's
 * Content-Security-Policy. The editor therefore replaces the selection itself.
 */
const replacing = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { data, inputType } = event;
    if (inputType !== 'insertText' || data === null || view.composing || view.state.selection.main.empty)
      return false;
    view.dispatch(view.state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true });
    return true;
  },
});

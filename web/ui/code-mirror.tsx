import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import { setDiagnostics } from '@codemirror/lint';
import { EditorSelection, EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { Badge, partsCss } from './index.tsx';
import type { CodeEditorProps } from './code-editor.tsx';
import { CopyButton, inSentence } from './copy.tsx';
import css from './code-mirror.module.css';
import { editorExtensions } from './code-mirror-setup.ts';
import {
  type Diagnostic,
  placedDiagnostics,
  type PlacedDiagnostic,
  offsetOf,
  toEditorDiagnostics,
} from './diagnostics.ts';

const severityTones = { error: 'bad', warning: 'warn', info: undefined } as const;

/** CodeMirror with diagnostics, both inline and in a list. */
export default function CodeMirror(props: CodeEditorProps) {
  const { label, value, onChange, language, diagnostics, onRun, lines = 24, goTo } = props;
  const isReadOnly = onChange === undefined;
  const hint = useId();
  const frame = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  /** The text that the editor and its parent last agreed on. */
  const syncedText = useRef(value);
  // The editor outlives the callbacks of a single render.
  const callbacks = useRef({ onChange, onRun });
  callbacks.current = { onChange, onRun };
  const [{ list, at }, setFound] = useState<{ list: readonly PlacedDiagnostic[]; at: number }>({
    list: [],
    at: 0,
  });

  useLayoutEffect(() => {
    if (!frame.current) return;
    const state = EditorState.create({
      doc: syncedText.current,
      extensions: [
        editorExtensions({ language, isReadOnly, label, hint, run: () => run(callbacks.current.onRun) }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) {
            const text = update.state.doc.toString();
            if (text !== syncedText.current) {
              syncedText.current = text;
              callbacks.current.onChange?.(text);
            }
          }
          if (
            update.docChanged ||
            update.selectionSet ||
            update.transactions.some(({ effects }) => effects.length > 0)
          )
            setFound({ list: placedDiagnostics(update.state), at: update.state.selection.main.head });
        }),
      ],
    });
    const editorView = new EditorView({ state, parent: frame.current });
    view.current = editorView;
    return () => {
      editorView.destroy();
      view.current = null;
    };
  }, [language, isReadOnly, label, hint]);

  // In a layout effect: a keystroke between render and effect would be overwritten.
  useLayoutEffect(() => {
    const editor = view.current;
    if (!editor || value === syncedText.current) return;
    syncedText.current = value;
    const { anchor, head } = editor.state.selection.main;
    editor.dispatch({
      changes: { from: 0, to: editor.state.doc.length, insert: value },
      selection: EditorSelection.single(Math.min(anchor, value.length), Math.min(head, value.length)),
    });
  }, [value]);

  const diagnosticsJson = JSON.stringify(diagnostics ?? []);
  useLayoutEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const parsedDiagnostics = JSON.parse(diagnosticsJson) as readonly Diagnostic[];
    editor.dispatch(setDiagnostics(editor.state, toEditorDiagnostics(editor.state, parsedDiagnostics)));
  }, [diagnosticsJson, language, isReadOnly, label, hint]);

  const moveCursor = (from: number, to = from) => {
    const editor = view.current;
    if (!editor) return;
    editor.dispatch({
      selection: EditorSelection.single(from, to),
      effects: EditorView.scrollIntoView(from, { y: 'center' }),
    });
    editor.focus();
  };
  useEffect(() => {
    if (goTo && view.current) moveCursor(offsetOf(view.current.state.doc, goTo));
  }, [goTo]);

  const atCursor = list.filter(({ from, to }) => from <= at && at <= to);
  const findingCount = list.length === 1 ? '1 finding' : `${list.length} findings`;
  return (
    <div className={css['editor']}>
      <div ref={frame} className={css['frame']} style={{ ['--editor-lines' as string]: lines }} />
      <div className={css['foot']}>
        <div id={hint} className={css['hint']}>
          {isReadOnly ? 'Read-only.' : 'Tab indents; Escape, then Tab leaves the editor.'}
          {onRun && ' Ctrl+Enter runs.'}
          {list.length > 0 && ` ${findingCount}: F8 goes to the next one.`}
        </div>
        <CopyButton text={() => view.current?.state.doc.toString() ?? value} label={inSentence(label)} />
      </div>
      <div className={partsCss['visuallyHidden']} role="status">
        {atCursor.map(({ severity, message }) => `${severity}: ${message}`).join('\n')}
      </div>
      {list.length > 0 && (
        <ul className={css['list']} aria-label={`${label}: ${findingCount}`}>
          {list.map((item) => (
            <li key={`${item.from} ${item.to} ${item.source ?? ''} ${item.message}`}>
              <button
                type="button"
                className={css['item']}
                aria-current={atCursor.includes(item)}
                onClick={() => moveCursor(item.at)}
              >
                <span className={css['place']}>
                  {item.line}:{item.column}
                </span>
                <Badge tone={severityTones[item.severity]}>
                  {item.source === undefined ? item.severity : `${item.source} ${item.severity}`}
                </Badge>
                <span className={css['message']}>{item.message}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Returns whether there was a callback; otherwise other key bindings apply. */
function run(onRun: (() => void) | undefined): boolean {
  onRun?.();
  return onRun !== undefined;
}

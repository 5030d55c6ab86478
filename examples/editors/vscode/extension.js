// Starts `picajit lsp` for texts of the language `picasso`.
const { workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const settings = workspace.getConfiguration("picasso");
  const args = settings.get("noNop") ? ["lsp", "--no-nop"] : ["lsp"];
  const server = { command: settings.get("command"), args, transport: TransportKind.stdio };
  client = new LanguageClient("picasso", "picasso", server, { documentSelector: [{ language: "picasso" }] });
  return client.start();
};

exports.deactivate = () => client && client.stop();

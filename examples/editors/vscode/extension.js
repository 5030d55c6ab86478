// Starts `picajit lsp` for texts of the language `picasso`.
const { workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const settings = workspace.getConfiguration("picasso");
  const server = { command: settings.get("command"), args: ["lsp"], transport: TransportKind.stdio };
  client = new LanguageClient("picasso", "picasso", server, {
    documentSelector: [{ language: "picasso" }],
    initializationOptions: { libraries: settings.get("libraries"), noNop: settings.get("noNop") },
    synchronize: { configurationSection: "picasso" },
  });
  return client.start();
};

exports.deactivate = () => client && client.stop();
